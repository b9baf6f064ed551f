//! A `redis-server` behind TLS, with a certificate authority of its own.

use super::server::{Kind, RedisServer};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A server that speaks nothing but TLS on its port; clients need no certificate.
///
/// No machine trusts its authority. Give [`ca_file`](Self::ca_file) to the client, or put it into
/// `SSL_CERT_FILE` of a child process (setting a variable in the test process itself is `unsafe`).
#[derive(Debug)]
pub struct TlsRedisServer {
    /// The server: everything but its `url` is as without TLS.
    pub server: RedisServer,
    ca_file: PathBuf,
}

impl TlsRedisServer {
    /// Makes the certificates (for `localhost` and 127.0.0.1) and starts the server.
    pub async fn start() -> TlsRedisServer {
        let dir = TempDir::with_prefix("reentry-tls-").expect("a temporary folder");
        let ca_file = certify(dir.path());
        let file = |name: &str| dir.path().join(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
        let listen = |port: u16| {
            let port = port.to_string();
            let options = [
                ["--port", "0"],
                ["--tls-port", &port],
                ["--tls-auth-clients", "no"],
                ["--tls-ca-cert-file", &ca],
                ["--tls-cert-file", &cert],
                ["--tls-key-file", &key],
            ];
            options.concat().into_iter().map(str::to_owned).collect()
        };
        let server = RedisServer::launch(dir, Kind::Data, listen, &[]).await;
        TlsRedisServer { server, ca_file }
    }

    /// `rediss://localhost:PORT`.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}", self.server.port())
    }

    /// The authority's certificate, as a PEM file.
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// The authority's certificate in PEM, for `redis::Client::build_with_tls`.
    pub fn ca_pem(&self) -> Vec<u8> {
        fs::read(&self.ca_file).expect("the authority's certificate")
    }
}

/// Writes `ca.pem`, `server.pem` and `server.key` into `dir`; the path of the first.
fn certify(dir: &Path) -> PathBuf {
    let mut authority = CertificateParams::new([]).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate().expect("a key");
    let ca = authority
        .self_signed(&authority_key)
        .expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);

    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut leaf = CertificateParams::new(names).expect("valid names");
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_key = KeyPair::generate().expect("a key");
    let leaf = leaf.signed_by(&leaf_key, &issuer).expect("a certificate");

    let ca_file = dir.join("ca.pem");
    fs::write(&ca_file, ca.pem()).expect("ca.pem");
    fs::write(dir.join("server.pem"), leaf.pem()).expect("server.pem");
    fs::write(dir.join("server.key"), leaf_key.serialize_pem()).expect("server.key");
    ca_file
}
