//! Plans every program of `programs/`; the build fails where one is wrong or breaks an `assert`.

fn main() -> Result<(), shardwise::build::Failed> {
    shardwise::build::compile("programs")?;
    Ok(())
}
