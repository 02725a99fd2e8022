//! The command line of `capture`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use wire::ServerUrl;

use super::place::Place;
use super::proxy::tls::Ends;
use crate::failure::Failure;

/// What to capture, and into which trace.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["listen", "take_socket", "pcap", "interface"]))]
pub struct Options {
    /// The trace to write.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Take clients here and pass them through to --server: a path of a socket, or HOST:PORT.
    #[arg(long, value_name = "PLACE", requires = "server")]
    pub listen: Option<Place>,
    /// Take the place of the server's own socket, and give it back at the end: clients change nothing.
    #[arg(long, requires = "server")]
    pub take_socket: bool,
    /// Read packets from a file of tcpdump's instead (pcap or pcapng); -: from stdin.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Read packets as they pass on this interface instead, by tcpdump; any: all interfaces.
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Where the server is: <mysql://host:port>, mysql://?socket=PATH or postgres://... No login is needed, clients bring theirs.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// End TLS in the proxy: the certificate, in PEM format, that clients who ask for TLS see. Without it TLS passes through unread.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with_all = ["pcap", "interface"])]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, in PEM format and without a passphrase.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// The server's port in the packets; without it that of --server, or 3306 or 5432, whichever comes first.
    #[arg(long, value_name = "N", conflicts_with_all = ["listen", "take_socket"])]
    pub port: Option<u16>,
    /// End after so long.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// End when the trace has so many bytes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_bytes: Option<u64>,
    /// At the end, how long connections that are in the middle of something may go on.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub drain_seconds: u64,
    /// When reading cannot follow, let traffic go on unseen and count it as gaps; else traffic waits.
    #[arg(long)]
    pub lossy: bool,
    /// Let clients whom the server would know by their system user be known as this program's.
    #[arg(long)]
    pub share_identity: bool,
    /// Replace literals and parameters by their type and length.
    #[arg(long)]
    pub mask: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
}

impl Options {
    /// The server's URL.
    ///
    /// # Errors
    /// One that cannot be used.
    pub fn url(&self) -> Result<Option<ServerUrl>, Failure> {
        let parsed = self.server.as_deref().map(ServerUrl::parse).transpose();
        parsed.map_err(|error| {
            Failure::usage(
                format!("--server: {error}"),
                "write mysql://HOST:PORT, mysql://?socket=PATH or postgres://...",
            )
        })
    }

    /// How TLS ends in the proxy, if it does.
    ///
    /// # Errors
    /// Files that cannot be used; a server that is to be reached by TLS where it does not end here.
    pub fn tls_ends(&self, url: &ServerUrl) -> Result<Option<Ends>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else {
            return Ends::are_not_asked_for(url).map(|()| None);
        };
        Ends::new(certificate, key, url).map(Some)
    }

    /// When to end.
    #[must_use]
    pub fn lasts(&self) -> Option<Duration> {
        self.seconds.map(Duration::from_secs)
    }
}
