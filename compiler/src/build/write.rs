//! Files are written completely or not at all: into a temporary file in the same folder, which then
//! replaces the old one. A reader gets the old bytes or the new ones, never a mixture.

#[cfg(unix)]
use std::fs::Permissions;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::Path;

use tempfile::Builder;

/// Writes a file, completely or not at all.
///
/// An existing file keeps its permissions and, where the system lets this user give files away, its
/// owner. A symbolic link stays one: the file that it points to is replaced. Other files (a device,
/// a pipe) are written in place.
///
/// # Errors
///
/// What keeps the file from being written: no permission, no folder, no space.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let content = content.as_ref();
    match fs::canonicalize(path) {
        Ok(file) if file.is_file() => replace(&file, content, Some(&fs::metadata(&file)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            replace(path, content, None)
        }
        // A device, a pipe, or a link to nothing yet; a folder, which is an error.
        _ => fs::write(path, content),
    }
}

/// Writes a file unless it has the text already. Returns whether it was written.
///
/// # Errors
///
/// Those of [`write()`].
pub fn write_if_changed(path: &Path, text: &str) -> io::Result<bool> {
    if path.is_file() && fs::read(path).is_ok_and(|before| before == text.as_bytes()) {
        return Ok(false);
    }
    write(path, text).map(|()| true)
}

fn replace(path: &Path, content: &[u8], before: Option<&Metadata>) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = temporary(before.is_none()).tempfile_in(folder.unwrap_or(Path::new(".")))?;
    if let Some(before) = before {
        keep_owner(file.as_file(), before);
        file.as_file().set_permissions(before.permissions())?;
    }
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The temporary file becomes the file itself: a new one gets the permissions of new files instead
/// of the private ones of temporary files.
fn temporary(is_new: bool) -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(".shardwise-");
    #[cfg(unix)]
    if is_new {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(Permissions::from_mode(0o666));
    }
    builder
}

/// Gives a file the owner and group of another, as far as this user may.
#[cfg_attr(not(unix), expect(unused_variables, reason = "files have no owners there"))]
fn keep_owner(file: &File, of: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        // A user who may write a file of someone else may not give it back: it is theirs then.
        let _ = fchown(file, None, Some(of.gid()));
        let _ = fchown(file, Some(of.uid()), None);
    }
}

#[cfg(test)]
mod tests {
    use super::{write, write_if_changed};

    #[test]
    fn a_file_is_written_and_its_folder_holds_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("a.plan");
        for text in ["first", "second"] {
            write(&path, text).expect("it can be written");
            assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
        }
        assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 1);
        assert!(write(&folder.path().join("no/such/folder"), "text").is_err());
        assert!(write(folder.path(), "text").is_err(), "a folder is not replaced");
    }

    #[test]
    fn a_file_that_would_stay_the_same_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("a.plan");
        let written = ["one", "one", "two"].map(|text| write_if_changed(&path, text).ok());
        assert_eq!(written, [Some(true), Some(false), Some(true)]);
    }
}
