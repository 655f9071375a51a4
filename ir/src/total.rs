//! Sums of prices.

/// The sum of numbers; of none it is 0, where the library's sum is -0, which prints as such.
///
/// ```
/// assert!(shardwise_ir::total([]).is_sign_positive());
/// ```
pub fn total(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(0.0, |sum, number| sum + number)
}
