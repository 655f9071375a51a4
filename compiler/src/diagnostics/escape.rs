//! Control characters of sources and file names, shown as in Rust (`\u{1b}`): on a terminal they
//! would move the cursor, change colours, or reverse the text around them.
//!
//! Line ends and tabs stay. Characters that reverse the direction of text are no control characters
//! in Unicode, and hide a part of a line all the same.

use std::borrow::Cow;

/// A text with visible control characters.
///
/// ```
/// use shardwise::diagnostics::escaped;
/// assert_eq!(escaped("A\u{1b}[31m\n"), "A\\u{1b}[31m\n");
/// ```
pub fn escaped(text: &str) -> Cow<'_, str> {
    if hidden(text).next().is_none() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut end) = (String::new(), 0);
    for (at, c) in hidden(text) {
        shown.push_str(&text[end..at]);
        shown.extend(c.escape_unicode());
        end = at + c.len_utf8();
    }
    Cow::Owned(shown + &text[end..])
}

/// The characters of a text that are not shown as they are, with their places.
pub(super) fn hidden(text: &str) -> impl Iterator<Item = (usize, char)> {
    text.char_indices().filter(|&(at, c)| match c {
        '\n' | '\t' => false,
        '\r' => !text[at + 1..].starts_with('\n'),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    })
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn control_characters_become_visible() {
        let text = "a\u{1b}b\u{202e}\rc\r\n\td";
        let shown = escaped(text);
        assert_eq!(shown, "a\\u{1b}b\\u{202e}\\u{d}c\r\n\td");
        assert!(matches!(escaped("plain"), std::borrow::Cow::Borrowed("plain")));
    }
}
