//! Values of options, from text: sizes (`X=8,Y=8`, `X=16 over 4x4`, `X=4 dcn`, `X=16 as 8x2`,
//! `B=1024,D=4k`), bytes, times and percentages. Errors are sentences with the text to type.

use std::time::Duration;

use shardwise_grammar::number;
use shardwise_ir::mesh::KindName;

use crate::options::{AxisSize, DimSize};

/// The axes of `--mesh`.
///
/// # Errors
///
/// A sentence with what to write: an item that is no axis and its size, or an axis that stands
/// twice.
///
/// ```
/// let axes = shardwise::setting::mesh("X=16 over 4x4, Y=4 dcn")?;
/// assert_eq!((axes[0].size, axes[0].over.clone(), axes[1].size), (16, Some(vec![4, 4]), 4));
/// assert_eq!(axes[1].kind.map(|kind| kind.name()), Some("dcn"));
/// assert_eq!(shardwise::setting::mesh("X=16 as 8x2")?[0].parts, Some(vec![8, 2]));
/// assert!(shardwise::setting::mesh("X").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn mesh(text: &str) -> Result<Vec<AxisSize>, String> {
    let axes = items(text).map(|item| {
        let (name, value) = assignment(item)
            .ok_or_else(|| not_understood(item, "an axis and its size, such as X=8"))?;
        // As in programs, the kind stands after the size or after all.
        let (value, last) = with_kind(value);
        let (value, parts) = with_parts(value)?;
        let (value, over) = with_fold(value)?;
        let (number, first) = with_kind(value);
        let kind = last.or(first);
        Ok(AxisSize { over, kind, parts, ..AxisSize::new(name, size(item, number)?) })
    });
    distinct(axes.collect::<Result<_, String>>()?, |axis: &AxisSize| &axis.name)
}

/// The dimensions of `--dim`.
///
/// # Errors
///
/// A sentence with what to write: an item that is no dimension and its size, or a dimension that
/// stands twice.
///
/// ```
/// assert_eq!(shardwise::setting::dims("B=1024,D=4k")?[1].size, 4000);
/// # Ok::<(), String>(())
/// ```
pub fn dims(text: &str) -> Result<Vec<DimSize>, String> {
    let dims = items(text).map(|item| {
        let (name, value) = assignment(item)
            .ok_or_else(|| not_understood(item, "a dimension and its size, such as B=1024"))?;
        Ok(DimSize { name: name.to_owned(), size: size(item, value)? })
    });
    distinct(dims.collect::<Result<_, String>>()?, |dim: &DimSize| &dim.name)
}

/// The bytes of `--memory`; `none` is no limit, infinity. A number without a unit is bytes, unless
/// it is so small that another unit must be meant.
///
/// # Errors
///
/// A sentence with what to write: no number above zero, an unknown unit, or a small number without
/// one.
///
/// ```
/// assert_eq!(shardwise::setting::bytes("300MB"), Ok(3e8));
/// assert_eq!(shardwise::setting::bytes("16GiB"), shardwise::setting::bytes("16Gi"));
/// assert_eq!(shardwise::setting::bytes("1e9"), Ok(1e9));
/// assert_eq!(shardwise::setting::bytes("none"), Ok(f64::INFINITY));
/// assert!(shardwise::setting::bytes("16").is_err_and(|error| error.contains("16GiB")));
/// assert!(shardwise::setting::bytes("0GB").is_err());
/// ```
pub fn bytes(text: &str) -> Result<f64, String> {
    if text == "none" {
        return Ok(f64::INFINITY);
    }
    let (bytes, has_unit) = match number::bytes(text) {
        Some(bytes) => (Some(bytes), true),
        None => (plain(text), false),
    };
    match bytes {
        Some(bytes) if bytes > 0.0 && (has_unit || bytes >= FEWEST_BYTES) => Ok(bytes),
        Some(number) if number > 0.0 => Err(format!(
            "{number} of what? write {number}GB (1000^3 bytes) or {number}GiB (1024^3)"
        )),
        _ => Err("give bytes above zero, such as 300MB, 16GB or 16GiB, or `none`".to_owned()),
    }
}

/// A smaller limit without a unit is not meant in bytes.
const FEWEST_BYTES: f64 = 1e5;

/// The most of [`whole_number`].
const MOST: u64 = 1 << 40;

/// A whole number from 1, as programs write sizes: of sequences, or of their tokens.
///
/// # Errors
///
/// A sentence with what to write: no whole number from 1 to 2^40.
///
/// ```
/// assert_eq!(shardwise::setting::whole_number("4k"), Ok(4000));
/// assert!(shardwise::setting::whole_number("-8").is_err());
/// assert!(shardwise::setting::whole_number("9T").is_err_and(|error| error.contains("at most")));
/// ```
pub fn whole_number(text: &str) -> Result<u64, String> {
    match size(text, text) {
        Ok(number) if number <= MOST => Ok(number),
        Ok(_) => Err(format!("give at most {MOST}")),
        Err(_) => Err("give a whole number from 1, such as 4096, 48k or 2Mi".to_owned()),
    }
}

/// The seconds of a time with its unit.
///
/// # Errors
///
/// A sentence with what to write: no number, no unit, or a time below zero.
///
/// ```
/// assert_eq!(shardwise::setting::time("2ms"), Ok(0.002));
/// assert!(shardwise::setting::time("2").is_err());
/// assert!(shardwise::setting::time("-2ms").is_err_and(|error| error.contains("below zero")));
/// ```
pub fn time(text: &str) -> Result<f64, String> {
    number::seconds(text).ok_or_else(|| {
        let is_below = text.trim_start().starts_with('-');
        let what = if is_below { "no time is below zero; " } else { "" };
        format!("{what}give a time with its unit, such as 2ms or 300us")
    })
}

/// The duration of a limit of a step, with its unit: fifty of what is rarely seconds.
///
/// # Errors
///
/// Those of [`time`], or that a duration cannot be so long.
///
/// ```
/// assert_eq!(shardwise::setting::limit("50ms")?.as_millis(), 50);
/// assert!(shardwise::setting::limit("50").is_err());
/// # Ok::<(), String>(())
/// ```
pub fn limit(text: &str) -> Result<Duration, String> {
    let seconds = time(text)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} is longer than any step"))
}

/// The duration of `--timeout`, in seconds where no unit is given.
///
/// # Errors
///
/// A sentence with what to write: no number from 0, or 10^9 seconds and more.
///
/// ```
/// assert_eq!(shardwise::setting::timeout("0.5")?.as_millis(), 500);
/// # Ok::<(), String>(())
/// ```
pub fn timeout(text: &str) -> Result<Duration, String> {
    number::seconds(text)
        .or_else(|| plain(text))
        .filter(|&seconds| seconds < 1e9)
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give seconds, such as 10 or 0.5".to_owned())
}

/// The fraction of a percentage.
///
/// # Errors
///
/// A sentence with what to write: no number from 0, or no `%` after it.
///
/// ```
/// assert_eq!(shardwise::setting::percent("5%"), Ok(0.05));
/// ```
pub fn percent(text: &str) -> Result<f64, String> {
    text.strip_suffix('%')
        .and_then(plain)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "give a percentage, such as 5%".to_owned())
}

/// A number without a unit, finite and not negative.
fn plain(text: &str) -> Option<f64> {
    let number = text.trim().parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// The parts between commas.
pub(crate) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim)
}

/// `NAME=VALUE`.
pub(crate) fn assignment(item: &str) -> Option<(&str, &str)> {
    let (name, value) = item.split_once('=')?;
    Some((name.trim(), value.trim())).filter(|(name, value)| !name.is_empty() && !value.is_empty())
}

/// A positive size, as programs write it.
pub(crate) fn size(item: &str, text: &str) -> Result<u64, String> {
    let number = Some(text.trim())
        .filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))
        .and_then(number::size);
    number.filter(|&n| n > 0).ok_or_else(|| {
        let text = text.trim();
        if text.contains('=') {
            return format!("`{item}` gives more than one size; separate them by commas");
        }
        format!("`{text}` in `{item}` is not a size; write a whole number such as 4096, 48k or 2Mi")
    })
}

/// `4 dcn`: what stands before the kind of an axis, and the kind.
pub(crate) fn with_kind(text: &str) -> (&str, Option<KindName>) {
    let kind = text
        .rsplit_once(char::is_whitespace)
        .and_then(|(before, last)| Some((before.trim_end(), last.parse::<KindName>().ok()?)));
    kind.map_or((text, None), |(before, kind)| (before, Some(kind)))
}

/// `16 over 4x4`: the part before the fold, and the fold.
pub(crate) fn with_fold(text: &str) -> Result<(&str, Option<Vec<u64>>), String> {
    with_factors(text, " over ")
}

/// `16 as 8x2`: what stands before the parts, and the parts.
fn with_parts(text: &str) -> Result<(&str, Option<Vec<u64>>), String> {
    with_factors(text, " as ")
}

/// What stands before a word, and the factors after it.
fn with_factors<'t>(text: &'t str, word: &str) -> Result<(&'t str, Option<Vec<u64>>), String> {
    let Some((before, factors)) = text.split_once(word) else { return Ok((text, None)) };
    let factors: Result<Vec<u64>, String> =
        factors.split('x').map(|factor| size(text, factor)).collect();
    Ok((before.trim(), Some(factors?)))
}

pub(crate) fn not_understood(item: &str, wanted: &str) -> String {
    if item.is_empty() {
        format!("nothing stands there; write {wanted}")
    } else {
        format!("`{item}` is not understood; write {wanted}")
    }
}

/// The list, unless a name is in it twice.
pub(crate) fn distinct<T>(list: Vec<T>, name: impl Fn(&T) -> &str) -> Result<Vec<T>, String> {
    let again = list
        .iter()
        .enumerate()
        .find(|(i, item)| list[..*i].iter().any(|other| name(other) == name(item)));
    match again {
        Some((_, item)) => Err(format!("`{}` is given twice; keep one of them", name(item))),
        None => Ok(list),
    }
}
