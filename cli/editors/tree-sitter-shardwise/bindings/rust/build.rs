//! Compiles the generated parser and its scanner.

fn main() {
    let folder = std::path::Path::new("src");
    let sources = ["parser.c", "scanner.c"].map(|file| folder.join(file));
    for source in &sources {
        println!("cargo:rerun-if-changed={}", source.display());
    }
    cc::Build::new()
        .std("c11")
        .include(folder)
        .flag_if_supported("-Wno-unused")
        .files(sources)
        .compile("tree-sitter-shardwise");
}
