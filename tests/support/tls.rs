//! A `redis-server` behind TLS, with a certificate authority of its own.

use super::server::{Kind, RedisServer};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use redis::cmd;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A server with TLS on its port. If its build has no TLS, the test listens on the port, and forwards the decrypted
/// bytes.
///
/// No machine trusts its authority. Pass [`ca_file`](Self::ca_file) to the client, or set it as `SSL_CERT_FILE` of a
/// child process (setting a variable in the test process itself is `unsafe`).
#[derive(Debug)]
pub struct TlsRedisServer {
    /// The server. Everything except its `url` is as without TLS.
    pub server: RedisServer,
    ca_file: PathBuf,
    port: u16,
    terminator: Option<JoinHandle<()>>,
}

impl TlsRedisServer {
    /// Creates the certificates (for `localhost` and 127.0.0.1) and starts the server. Clients need no certificate.
    pub async fn start() -> TlsRedisServer {
        TlsRedisServer::start_for(Clients::All).await
    }

    /// Starts a server like [`start`](Self::start), but clients need a certificate:
    /// [`client_files`](Self::client_files).
    pub async fn start_for_known_clients() -> TlsRedisServer {
        TlsRedisServer::start_for(Clients::Known).await
    }

    async fn start_for(clients: Clients) -> TlsRedisServer {
        let plain = RedisServer::start().await;
        if has_tls(&plain).await {
            drop(plain);
            TlsRedisServer::start_itself(clients).await
        } else {
            TlsRedisServer::start_before(plain, clients).await
        }
    }

    async fn start_itself(clients: Clients) -> TlsRedisServer {
        let dir = TempDir::with_prefix("reentry-tls-").expect("a temporary folder");
        let ca_file = certify(dir.path());
        let file = |name: &str| dir.path().join(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
        let listen = |port: u16| {
            let port = port.to_string();
            let options = [
                ["--port", "0"],
                ["--tls-port", &port],
                ["--tls-auth-clients", clients.authenticated()],
                ["--tls-ca-cert-file", &ca],
                ["--tls-cert-file", &cert],
                ["--tls-key-file", &key],
            ];
            options.concat().into_iter().map(str::to_owned).collect()
        };
        let server = RedisServer::launch(dir, Kind::Data, listen, &[], Vec::new()).await;
        let port = server.port();
        TlsRedisServer {
            server,
            ca_file,
            port,
            terminator: None,
        }
    }

    async fn start_before(server: RedisServer, clients: Clients) -> TlsRedisServer {
        let ca_file = certify(server.dir());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let terminating = terminate(listener, acceptor(server.dir(), clients), server.port());
        TlsRedisServer {
            server,
            ca_file,
            port,
            terminator: Some(tokio::spawn(terminating)),
        }
    }

    /// `rediss://localhost:PORT`.
    pub fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }

    /// The port that speaks TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authority's certificate, as a PEM file.
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// The certificate of a client, and its key, as PEM files.
    pub fn client_files(&self) -> [PathBuf; 2] {
        ["client.pem", "client.key"].map(|name| self.ca_file.with_file_name(name))
    }
}

/// The clients that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clients {
    All,
    /// The clients with a certificate of the authority.
    Known,
}

impl Clients {
    /// The value of the server's option.
    fn authenticated(self) -> &'static str {
        match self {
            Clients::All => "no",
            Clients::Known => "yes",
        }
    }
}

impl Drop for TlsRedisServer {
    fn drop(&mut self) {
        if let Some(terminator) = &self.terminator {
            terminator.abort();
        }
    }
}

/// Returns whether the server was built with TLS. Without TLS it has no such option.
async fn has_tls(server: &RedisServer) -> bool {
    let mut connection = server.connection().await;
    let mut get = cmd("CONFIG");
    let options = get.arg(&["GET", "tls-port"]).query_async(&mut connection);
    let options: BTreeMap<String, String> = options.await.expect("its options");
    !options.is_empty()
}

/// Accepts the TLS connections of clients, and forwards their bytes to `port`. Dropping it ends all their connections.
async fn terminate(listener: TcpListener, acceptor: TlsAcceptor, port: u16) {
    let mut links = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        links.spawn(async move {
            // A client that does not trust the certificate hangs up.
            let mut client = acceptor.accept(client).await?;
            let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
            copy_bidirectional(&mut client, &mut server).await
        });
    }
}

fn acceptor(dir: &Path, clients: Clients) -> TlsAcceptor {
    let authority = CertificateDer::from_pem_file(dir.join("ca.pem")).expect("our authority");
    let mut authorities = RootCertStore::empty();
    authorities.add(authority).expect("an authority");
    let provider = Arc::new(ring::default_provider());
    let known = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    let verifier = match clients {
        Clients::All => WebPkiClientVerifier::no_client_auth(),
        Clients::Known => known.build().expect("a verifier"),
    };
    let certificate = CertificateDer::from_pem_file(dir.join("server.pem"));
    let key = PrivateKeyDer::from_pem_file(dir.join("server.key"));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate.expect("our certificate")],
            key.expect("its key"),
        );
    TlsAcceptor::from(Arc::new(config.expect("a certificate with its key")))
}

/// Writes `ca.pem`, and the certificates and keys of `server` and `client`, into `dir`. Returns the path of the first.
fn certify(dir: &Path) -> PathBuf {
    let mut authority = CertificateParams::new([]).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate().expect("a key");
    let ca = authority
        .self_signed(&authority_key)
        .expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);

    for (name, usage) in [
        ("server", ExtendedKeyUsagePurpose::ServerAuth),
        ("client", ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut leaf = CertificateParams::new(names).expect("valid names");
        leaf.distinguished_name.push(DnType::CommonName, name);
        leaf.extended_key_usages = vec![usage];
        leaf.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().expect("a key");
        let leaf = leaf.signed_by(&key, &issuer).expect("a certificate");
        let file = |extension: &str| dir.join(name).with_extension(extension);
        fs::write(file("pem"), leaf.pem()).expect("a certificate");
        fs::write(file("key"), key.serialize_pem()).expect("a key");
    }
    let ca_file = dir.join("ca.pem");
    fs::write(&ca_file, ca.pem()).expect("ca.pem");
    ca_file
}
