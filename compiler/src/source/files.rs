//! How the files that programs name are read: the library itself reads none, the caller passes a
//! function.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The largest hardware file that is read.
pub const MOST_BYTES: u64 = 1 << 20;

type Read = dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync;

/// How the files that programs name are read; by default, not at all.
#[derive(Clone, Default)]
pub struct Files(Option<Arc<Read>>);

impl Files {
    /// With `read`, whose argument is the path in the program, relative to the folder of the
    /// program.
    ///
    /// ```
    /// use shardwise::{Options, source::files::Files};
    /// let files = Files::read_by(|path| match path.to_str() {
    ///     Some("models/hw.toml") => {
    ///         Ok(b"[chip]\nbase = \"h100\"\nlink_bandwidth = 370e9\n".to_vec())
    ///     }
    ///     _ => Err(std::io::ErrorKind::NotFound.into()),
    /// });
    /// let source = "hardware \"hw.toml\"\nmesh X=8\ndim I=64\ninput A[I_X]\nB = gelu(A)\n\
    ///     output B[I_X]\n";
    /// let options = Options { files, ..Options::default() };
    /// let planned = shardwise::plan("models/gelu.shard", source, &options)?;
    /// assert!(planned.to_string().starts_with("plan\nhardware chip from \"hw.toml\"\n"));
    /// # Ok::<(), shardwise::Findings>(())
    /// ```
    pub fn read_by(read: impl Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// Whether files are read at all.
    pub fn are_read(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn text(&self, path: &Path) -> Result<String, Unread> {
        let Some(read) = &self.0 else { return Err(Unread::Nobody) };
        let bytes = read(path).map_err(Unread::Io)?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(Unread::TooLarge);
        }
        String::from_utf8(bytes).map_err(|error| Unread::NotText(error.utf8_error().valid_up_to()))
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.are_read() { "Files(read)" } else { "Files(not read)" })
    }
}

/// Why there is no text.
pub(crate) enum Unread {
    /// It is not named like a hardware file.
    OtherName,
    Nobody,
    Io(io::Error),
    TooLarge,
    NotText(usize),
}
