//! Numbers of things in messages.

/// `1 stage`, `4 stages`, `8 microbatches`.
///
/// ```
/// assert_eq!(shardwise_ir::counted(1, "stage"), "1 stage");
/// assert_eq!(shardwise_ir::counted(8, "microbatch"), "8 microbatches");
/// ```
pub fn counted(count: u64, what: &str) -> String {
    let ending = match (count, what.ends_with('h')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {what}{ending}")
}
