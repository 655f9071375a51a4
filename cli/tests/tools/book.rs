//! The site of the book: mdBook builds it from `compiler/docs` without a warning, and every link on
//! its pages leads to a page, a heading or a file. Links to other sites are not followed, but those
//! to files of this repository are.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::common::{empty_folder, root, text};
use crate::require;

/// Where pages link to files of the repository.
const REPOSITORY: &str = "https://github.com/shardwise/shardwise/blob/main/";

/// Builds the site; its pages by their paths.
fn built() -> (PathBuf, BTreeMap<PathBuf, String>) {
    require(&["mdbook"]);
    let site = empty_folder("book");
    let output = Command::new("mdbook")
        .args(["build", "compiler/docs", "--dest-dir"])
        .arg(&site)
        .current_dir(root())
        .output()
        .expect("mdbook starts");
    let printed = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(!printed.contains("WARN") && !printed.contains("ERROR"), "{printed}");
    let pages =
        files_below(&site).into_iter().filter(|path| path.extension() == Some("html".as_ref()));
    let read = |path: PathBuf| {
        let page = std::fs::read_to_string(&path).expect("a page can be read");
        (path, page)
    };
    let pages = pages.map(read).collect();
    (site, pages)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder can be read").flatten();
    let paths = entries.map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The values of an attribute on a page.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(&start[..]).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

/// Why a link of a page leads nowhere.
fn fault(pages: &BTreeMap<PathBuf, String>, page: &Path, link: &str) -> Option<String> {
    if let Some(path) = link.strip_prefix(REPOSITORY) {
        let path = path.split('#').next().unwrap_or_default();
        return (!root().join(path).exists()).then(|| format!("`{path}` is not in the repository"));
    }
    if link.contains("://") || link.starts_with("data:") || link.starts_with("javascript:") {
        return None;
    }
    let (file, heading) = link.split_once('#').unwrap_or((link, ""));
    let folder = page.parent().expect("a page is in a folder");
    let to = if file.is_empty() { page.to_path_buf() } else { normal(&folder.join(file)) };
    if !to.exists() {
        return Some(format!("there is no `{file}`"));
    }
    let headings = pages.get(&to).filter(|_| !heading.is_empty())?;
    let is_there = values(headings, "id").contains(&heading);
    (!is_there).then(|| format!("there is no heading `{heading}` in `{}`", to.display()))
}

#[test]
fn every_link_of_the_site_leads_somewhere() {
    let (site, pages) = built();
    let mut faults = Vec::new();
    let mut links = 0;
    for (path, page) in &pages {
        for link in [values(page, "href"), values(page, "src")].concat() {
            links += 1;
            let from = path.strip_prefix(&site).expect("it is of the site").display();
            faults.extend(fault(&pages, path, link).map(|why| format!("{from}: {link}: {why}")));
        }
    }
    faults.sort_unstable();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(links > 1000 && pages.len() > 30, "{links} links on {} pages", pages.len());
}
