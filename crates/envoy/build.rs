//! Compiles the Envoy protobuf messages to Rust, without a system `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], ["proto"])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    // Reflection and the JSON form of the messages read the descriptors at run time.
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure().build_transport(false).build_server(false).compile_fds(descriptors)?;
    Ok(())
}
