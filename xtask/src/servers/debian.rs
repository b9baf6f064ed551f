//! Debian packages, unpacked outside the system: a server, and all libraries that it needs, because they may be newer
//! than those of this machine.

use crate::run::run;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const MIRROR: &str = "https://deb.debian.org/debian";

/// The suites in which a series is searched. The first suite that has the series has its newest version.
const SUITES: [&str; 3] = ["sid", "trixie", "bookworm"];

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The suite whose libraries need the oldest C library. They work with the C library of this machine.
const OLDEST: &str = SUITES[2];

/// Unpacks the newest `redis` or `valkey` whose version begins with `series` into `folder`. There `server` is a
/// script that starts the server with its own libraries.
pub(super) fn server(all: &Path, product: &str, series: &str, folder: &Path) -> Result<()> {
    let (server, tools) = (format!("{product}-server"), format!("{product}-tools"));
    for suite in SUITES {
        let index = index(all, suite)?;
        let packages = Packages::read(&index);
        let version = packages.upstream(&server);
        if !version.is_some_and(|version| version.starts_with(series)) {
            continue;
        }
        // The program itself is in the package of the tools, under another name.
        for entry in packages.with_libraries(&[&server, &tools])?.values() {
            unpack(entry, folder)?;
        }
        return script(&server, folder);
    }
    bail!("no {product} {series}x in {}", SUITES.join(", "));
}

/// Unpacks a `libfaketime.so.1` for the C library of this machine into `folder`.
pub(super) fn faketime(all: &Path, folder: &Path) -> Result<()> {
    let index = index(all, OLDEST)?;
    let packages = Packages::read(&index);
    let entry = packages.0.get("libfaketime");
    unpack(
        entry.context("the package contains no libfaketime")?,
        folder,
    )?;
    let libraries = libraries(folder)?;
    let found = libraries
        .into_iter()
        .map(|libraries| libraries.join("faketime/libfaketime.so.1"))
        .find(|library| folder.join(library).is_file());
    symlink(
        found.context("the package contains no library")?,
        folder.join("libfaketime.so.1"),
    )?;
    Ok(())
}

/// The current index of a suite.
fn index(all: &Path, suite: &str) -> Result<String> {
    let packed = all.join(format!("{suite}.xz"));
    let written = fs::metadata(&packed).and_then(|file| file.modified());
    let is_fresh = written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < DAY));
    if !is_fresh {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => bail!("this task has no servers for {other}"),
        };
        let path = format!("dists/{suite}/main/binary-{architecture}/Packages.xz");
        download(&path, &packed)?;
    }
    let mut unpack = Command::new("xz");
    unpack.args(["--decompress", "--stdout"]).arg(packed);
    let output = unpack.stderr(Stdio::inherit()).output();
    let output = output.context("cannot run `xz`")?;
    ensure!(output.status.success(), "the index of {suite} is damaged");
    Ok(String::from_utf8(output.stdout)?)
}

/// The packages of one suite by name, with a few lines each.
struct Packages<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Packages<'a> {
    fn read(index: &'a str) -> Self {
        let entries = index.split("\n\n");
        let named = entries.filter_map(|entry| Some((field(entry, "Package")?, entry)));
        Self(named.collect())
    }

    /// The version of a package, without the epoch.
    fn upstream(&self, package: &str) -> Option<&'a str> {
        let version = field(self.0.get(package)?, "Version")?;
        Some(version.split_once(':').map_or(version, |(_, rest)| rest))
    }

    /// These packages and all libraries that they need, directly or indirectly. Other packages are left out,
    /// because only the installation needs them.
    fn with_libraries(&self, packages: &[&'a str]) -> Result<BTreeMap<&'a str, &'a str>> {
        let mut found = BTreeMap::new();
        let mut wanted = packages.to_vec();
        while let Some(package) = wanted.pop() {
            if found.contains_key(package) {
                continue;
            }
            let entry = *self
                .0
                .get(package)
                .with_context(|| format!("no {package}"))?;
            found.insert(package, entry);
            let needs = ["Pre-Depends", "Depends"].map(|name| field(entry, name));
            let needs = needs
                .into_iter()
                .flatten()
                .flat_map(|list| list.split(", "));
            let names = needs.filter_map(|need| need.split([' ', ':']).next());
            wanted.extend(names.filter(|name| name.starts_with("lib") || *name == "zlib1g"));
        }
        Ok(found)
    }
}

/// One field of a package in an index.
fn field<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = entry.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Downloads the package of this entry and unpacks it into `folder/root`.
fn unpack(entry: &str, folder: &Path) -> Result<()> {
    let path = field(entry, "Filename").context("the package has no file")?;
    let hash = field(entry, "SHA256").context("the package has no hash")?;
    let package = folder.join("package.deb");
    download(path, &package)?;
    let root = folder.join("root");
    fs::create_dir_all(&root)?;
    let mut shell = Command::new("sh");
    shell.args(["-ec", UNPACK, hash]).arg(&package).arg(&root);
    let status = shell.status()?;
    ensure!(status.success(), "cannot unpack {path} ({status})");
    fs::remove_file(package)?;
    Ok(())
}

/// `$0` is the hash, `$1` the package, `$2` the folder for its files.
const UNPACK: &str =
    r#"echo "$0  $1" | sha256sum --check --quiet; ar p "$1" data.tar.xz | tar -xJ -C "$2""#;

/// Downloads a file of the archive to this path. The file is complete, or missing.
fn download(path: &str, to: &Path) -> Result<()> {
    let partial = to.with_extension("partial");
    let mut curl = Command::new("curl");
    curl.args(["--fail", "--location", "--silent", "--show-error"]);
    curl.args(["--retry", "3", "--output"]).arg(&partial);
    run(curl.arg(format!("{MIRROR}/{path}")))?;
    fs::rename(partial, to)?;
    Ok(())
}

/// The folders below `folder` in which the libraries of the unpacked packages are, relative to it.
fn libraries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for parent in ["root/lib", "root/usr/lib"] {
        let Ok(entries) = fs::read_dir(folder.join(parent)) else {
            continue;
        };
        for entry in entries {
            let name = entry?.file_name();
            if name.to_string_lossy().ends_with("-linux-gnu") {
                found.push(Path::new(parent).join(name));
            }
        }
    }
    Ok(found)
}

/// Writes `folder/server`, which starts the program through the loader of its own C library.
fn script(program: &str, folder: &Path) -> Result<()> {
    let libraries = libraries(folder)?;
    let mut loader = None;
    for place in &libraries {
        for entry in fs::read_dir(folder.join(place))? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with("ld-linux") {
                loader = Some(place.join(name));
            }
        }
    }
    let loader = loader.context("no loader among the libraries")?;
    let path: Vec<_> = libraries
        .iter()
        .map(|place| format!("$here/{}", place.display()))
        .collect();
    let script = format!(
        "#!/bin/sh\nhere=${{0%/*}}\nexec \"$here/{}\" --library-path \"{}\" \"$here/root/usr/bin/{program}\" \"$@\"\n",
        loader.display(),
        path.join(":"),
    );
    let file = folder.join("server");
    fs::write(&file, script)?;
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "\
Package: redis-server
Version: 5:8.0.6-3
Depends: lsb-base, redis-tools (= 5:8.0.6-3)

Package: redis-tools
Depends: adduser, libssl3t64 (>= 3.0.0)

Package: libssl3t64
Pre-Depends: libc6 (>= 2.38)
Depends: zlib1g:any (>= 1:1.1.4) | other

Package: libc6
Depends: libssl3t64

Package: zlib1g
Version: 1:1.3
";

    #[test]
    fn a_server_comes_with_its_libraries_alone() {
        let packages = Packages::read(INDEX);
        let found = packages.with_libraries(&["redis-server", "redis-tools"]);
        let found: Vec<_> = found.unwrap().into_keys().collect();
        let expected = [
            "libc6",
            "libssl3t64",
            "redis-server",
            "redis-tools",
            "zlib1g",
        ];
        assert_eq!(found, expected);
        assert!(packages.with_libraries(&["valkey-server"]).is_err());
    }

    #[test]
    fn a_version_is_known_without_its_epoch() {
        let packages = Packages::read(INDEX);
        assert_eq!(packages.upstream("redis-server"), Some("8.0.6-3"));
        assert_eq!(packages.upstream("valkey-server"), None);
    }
}
