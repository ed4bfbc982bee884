//! Compiles the protocol without a system `protoc`.
fn main() {
    let files = protox::compile(["rls.proto"], ["."]).expect("rls.proto compiles");
    tonic_prost_build::configure().build_client(false).compile_fds(files).expect("code is generated");
}
