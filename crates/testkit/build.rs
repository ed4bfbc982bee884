//! Generates the messages of Envoy's rate limit service, with a client, from the protocol files of the service itself.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crates = ["../envoy/proto", "../server/proto"];
    let folder = crates.into_iter().find(|folder| std::path::Path::new(folder).is_dir());
    let folder = folder.ok_or("no folder with the protocol files; name it in build.rs of testkit")?;
    println!("cargo::rerun-if-changed={folder}");
    let descriptors = protox::compile(["envoy/service/ratelimit/v3/rls.proto"], [folder])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure().build_transport(false).build_server(false).compile_fds(descriptors)?;
    Ok(())
}
