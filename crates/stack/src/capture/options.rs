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
    /// Accept clients here and forward them to --server: a socket's path, which contains a /, or HOST:PORT.
    #[arg(long, value_name = "PLACE", requires = "server")]
    pub listen: Option<Place>,
    /// Replace the server's own socket, and give it back at the end. Clients change nothing.
    #[arg(long, requires = "server")]
    pub take_socket: bool,
    /// Read packets from a file that tcpdump or dumpcap wrote (pcap or pcapng); - reads them from stdin.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Read packets as they pass on this interface, by tcpdump; `any` is all interfaces.
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Where the server is: `mysql://HOST:PORT`, `mysql://?socket=PATH` or `postgres://...`. User and password are not needed: clients log in with their own.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// End TLS in the proxy, with this certificate in PEM format for the clients. Without it, TLS passes through unread.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with_all = ["pcap", "interface"])]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, in PEM format and without a passphrase.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// The server's port in the packets. Without it: that of --server, or else 3306 or 5432, whichever comes first.
    #[arg(long, value_name = "N", conflicts_with_all = ["listen", "take_socket"])]
    pub port: Option<u16>,
    /// End after N seconds.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// End when the trace has N bytes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_bytes: Option<u64>,
    /// At the end, how long busy connections may go on.
    #[arg(long, value_name = "N", default_value_t = 5, conflicts_with_all = ["pcap", "interface"])]
    pub drain_seconds: u64,
    /// If reading is too slow, forward traffic unread and count gaps. Without it, traffic waits.
    #[arg(long)]
    pub lossy: bool,
    /// Also accept clients that the server would know as this program's system user.
    #[arg(long, conflicts_with_all = ["pcap", "interface"])]
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
                "use mysql://HOST:PORT, mysql://?socket=PATH or postgres://...",
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
