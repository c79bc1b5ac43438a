//! What is kept here is for its owner's eyes: conversations, and what agents saw.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes a directory that only its owner may look into; one that is there already
/// is closed to others. Fails where it belongs to somebody else.
pub fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    close(dir, 0o700)
}

/// Opens a file that only its owner may read, to write at its end; it is made
/// where it is missing.
pub fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    close(path, 0o600)?;
    Ok(file)
}

fn close(path: &Path, mode: u32) -> io::Result<()> {
    if path.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}
