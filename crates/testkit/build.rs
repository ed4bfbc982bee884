//! Generates the messages of Envoy's rate limit service, with a client, from the protocol files of the service itself.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = "../envoy/proto";
    println!("cargo::rerun-if-changed={folder}");
    let descriptors = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], [folder])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure().build_transport(false).build_server(false).compile_fds(descriptors)?;
    Ok(())
}
