//! Other names for what a program declares or defines.
//!
//! Whether a name fits is decided by reading the renamed program: it must have the same names at
//! the same places as before, but for the new one. Rules for that would repeat those of the parser
//! (reserved words, words that are read letter by letter, `dW`) and could differ from them. A
//! correct program must also stay correct.

use shardwise_ir::Severity;

use super::Document;
use super::names::{Kind, Occurrence};
use crate::Options;
use crate::lint::{Edit, Fix, Safety, apply};

/// The edits that rename what `of` names, in the order of the text; an error says why there are
/// none.
pub(super) fn rename(
    document: &Document,
    of: &Occurrence,
    name: &str,
    options: &Options,
) -> Result<Vec<Edit>, String> {
    let names = document.names();
    can_be_renamed(document, of)?;
    let exists = |it: &Occurrence| it.kind == of.kind && it.name == name && it.name != of.name;
    if names.all().iter().any(exists) {
        return Err(format!("there is a `{name}` already; choose another name"));
    }
    let mut edits: Vec<Edit> = Vec::new();
    for place in names.same(of) {
        let edit = edit(document, place, name);
        if edits.last() != Some(&edit) {
            edits.push(edit);
        }
    }
    let fix = Fix { title: String::new(), safety: Safety::Safe, edits };
    let (text, _) = apply(&document.text, [&fix]);
    let renamed = Document::new(&document.name, text);
    if !has_same_names(document, &renamed, of, name) {
        return Err(format!(
            "with `{name}` instead of `{}`, the program is read differently",
            of.name
        ));
    }
    let error = |document: &Document| {
        let reports = document.check(options).findings.reports.into_iter();
        reports.map(|report| report.diag).find(|diag| diag.severity == Severity::Error)
    };
    match error(&renamed) {
        // An error that was there before is no reason.
        Some(diag) if error(document).is_none() => Err(diag.message),
        _ => Ok(fix.edits),
    }
}

/// Whether something has a name that its author chose.
pub(super) fn can_be_renamed(document: &Document, of: &Occurrence) -> Result<(), String> {
    let what = match of.kind {
        Kind::Value | Kind::Dim | Kind::Axis | Kind::Block => {
            return match document.names().definition(of) {
                Some(_) => Ok(()),
                None => Err(format!("`{}` is not declared in this program", of.name)),
            };
        }
        Kind::Hardware => "hardware",
        Kind::Function => "a function",
        Kind::Collective => "a collective",
        Kind::Dtype => "an element type",
        Kind::Code => "a code",
    };
    Err(format!("`{}` is {what}, which has its name from the language", of.name))
}

/// The edit of one place; the words of several axes are written apart where letters no longer do.
fn edit(document: &Document, place: &Occurrence, name: &str) -> Edit {
    let is_letter = place.kind == Kind::Axis && place.word != place.span;
    if !is_letter || name.chars().count() == 1 {
        return Edit { span: place.span, text: name.to_owned() };
    }
    let text = &document.text;
    let letters = text[place.word.start..place.word.end].chars().map(|letter| {
        if letter.encode_utf8(&mut [0; 4]) == place.name.as_str() {
            name.to_owned()
        } else {
            letter.to_string()
        }
    });
    let words = letters.collect::<Vec<_>>().join(",");
    let is_bare = text[..place.word.start].ends_with('_');
    Edit { span: place.word, text: if is_bare { format!("{{{words}}}") } else { words } }
}

fn has_same_names(old: &Document, new: &Document, of: &Occurrence, name: &str) -> bool {
    let (before, after) = (old.names().all(), new.names().all());
    let is_same = |(before, after): (&Occurrence, &Occurrence)| {
        let expected = if before.is_same(of) { name } else { &before.name };
        before.kind == after.kind
            && after.name == expected
            && before.is_definition == after.is_definition
    };
    old.diags.len() == new.diags.len()
        && before.len() == after.len()
        && before.iter().zip(after).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::super::Document;
    use super::super::tests::fixtures;
    use crate::Options;
    use crate::lint::{Fix, Safety, apply};

    const PROGRAM: &str = "\
hardware h100
mesh X=4, Y=2
dim B=8, D=4
input In[B_XY, D]
param W[D, D']
H = sum_{B,D'}(In *D W)
backward from H
output dW[D, D'_X]
";

    fn options() -> Options {
        Options { files: crate::build::from_disk(), ..Options::default() }
    }

    fn renamed(mark: &str, name: &str) -> Result<String, String> {
        let document = Document::new("a.shard", PROGRAM);
        let offset = PROGRAM.find(mark).expect("it is there");
        let edits =
            document.rename(document.names().at(offset).expect("a name"), name, &options())?;
        let fix = Fix { title: String::new(), safety: Safety::Safe, edits };
        Ok(apply(PROGRAM, [&fix]).0)
    }

    #[test]
    fn every_use_is_renamed() {
        let all = renamed("W[", "Win").expect("it can be renamed");
        assert_eq!(all, PROGRAM.replace("W[", "Win[").replace("*D W", "*D Win"));
        let all = renamed("D=4", "Dim").expect("it can be renamed");
        let expected = PROGRAM.replace("D=4", "Dim=4").replace("*D ", "*Dim ");
        let expected = expected
            .replace(", D]", ", Dim]")
            .replace("[D, D'", "[Dim, Dim'")
            .replace(",D'", ",Dim'");
        assert_eq!(all, expected);
    }

    #[test]
    fn words_of_several_axes_stay_words() {
        let one = renamed("X=4", "Z").expect("it can be renamed");
        assert!(one.contains("B_ZY") && one.contains("D'_Z"), "{one}");
        let word = renamed("X=4", "data").expect("it can be renamed");
        assert!(word.contains("B_{data,Y}") && word.contains("D'_data"), "{word}");
    }

    fn is_correct(name: &str, text: &str) -> bool {
        !crate::check(name, text, &options()).findings.has_errors()
    }

    #[test]
    fn correct_programs_stay_correct() {
        let mut programs = fixtures();
        programs.retain(|(path, text)| is_correct(path, text));
        assert!(programs.len() > 100, "{} programs", programs.len());
        for (path, text) in programs {
            let document = Document::new(&*path, &*text);
            let mut all = text.clone();
            let names = document.names().all();
            for (number, of) in names.iter().enumerate() {
                if of.is_definition {
                    // One after the other, so that each is renamed beside renamed ones.
                    let now = Document::new(&*path, &*all);
                    let same = now.names().all().iter().find(|it| it.is_same(of));
                    let same = same.unwrap_or_else(|| panic!("{path}: `{}` in\n{all}", of.name));
                    let edits = now.rename(same, &format!("n{number}n"), &options());
                    let edits = edits.unwrap_or_else(|error| panic!("{path}: {error} in\n{all}"));
                    let fix = Fix { title: String::new(), safety: Safety::Safe, edits };
                    all = apply(&all, [&fix]).0;
                }
            }
            assert!(is_correct(&path, &all), "{path} as\n{all}");
        }
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        for (mark, name) in [
            ("In[", "W"),
            ("In[", "mesh"),
            ("In[", "a b"),
            ("In[", ""),
            ("X=4", "Y"),
            ("B=8", "D_X"),
        ] {
            let refused = renamed(mark, name);
            assert!(refused.is_err(), "{mark} as {name}: {refused:?}");
        }
        let document = Document::new("a.shard", "H = gelu(A)\n");
        let refused = document.rename(document.names().at(5).expect("a name"), "relu", &options());
        assert_eq!(
            refused,
            Err("`gelu` is a function, which has its name from the language".into())
        );
    }
}
