//! Clients that wait for the server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use socket2::Type;

use super::batch::{Batches, spool};
use super::tls::tests::Files;
use super::*;

/// What ends in the end has ended by then, and no system has given a connection up by itself (Linux: two minutes).
const PATIENCE: Duration = Duration::from_secs(20);
const NEVER: Duration = Duration::from_secs(600);

/// A server that answers no SYN: its backlog is full, and it accepts nothing.
struct Deaf {
    listener: Socket,
    address: SocketAddr,
    backlog: Vec<Socket>,
}

impl Deaf {
    fn new() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let listener = socket();
        listener.bind(&any.into()).expect("a port");
        listener.listen(0).expect("listens");
        let address = listener.local_addr().expect("bound");
        let mut backlog = Vec::new();
        loop {
            let next = socket();
            if next
                .connect_timeout(&address, Duration::from_millis(300))
                .is_err()
            {
                break;
            }
            backlog.push(next);
            assert!(backlog.len() < 100, "this system's backlog has no end");
        }
        Self {
            listener,
            address: address.as_socket().expect("TCP"),
            backlog,
        }
    }

    /// Accept until a client says something; what it says.
    fn hears(self) -> Vec<u8> {
        drop(self.backlog);
        let limit = Some(PATIENCE);
        self.listener.set_read_timeout(limit).expect("a limit");
        loop {
            let (mut client, _) = self.listener.accept().expect("a client in time");
            client.set_read_timeout(limit).expect("a limit");
            let mut said = Vec::new();
            client.read_to_end(&mut said).expect("an end");
            if !said.is_empty() {
                return said;
            }
        }
    }
}

/// A proxy that is not running yet.
struct Setting {
    proxy: Proxy,
    stop: Arc<Stop>,
    counts: Arc<Counts>,
    address: SocketAddr,
    _batches: Batches,
}

/// One that runs.
struct Running {
    forwarding: JoinHandle<io::Result<Forwarded>>,
    stop: Arc<Stop>,
    counts: Arc<Counts>,
    address: SocketAddr,
    _batches: Batches,
}

impl Setting {
    fn new(server: SocketAddr, patience: Duration) -> Self {
        Self::with_tls(server, patience, None)
    }

    fn with_tls(server: SocketAddr, patience: Duration, tls: Option<Ends>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("bound");
        let (spool, batches) = spool(false);
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let (mut proxy, stop) = Proxy::new(
            listener.into(),
            server.into(),
            tls,
            spool,
            Clock::start(),
            counted,
            Duration::ZERO,
        )
        .expect("epoll");
        proxy.patience = patience;
        Self {
            proxy,
            stop,
            counts,
            address,
            _batches: batches,
        }
    }

    fn run(self) -> Running {
        let proxy = self.proxy;
        Running {
            forwarding: thread::spawn(move || proxy.run()),
            stop: self.stop,
            counts: self.counts,
            address: self.address,
            _batches: self._batches,
        }
    }
}

impl Running {
    fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).expect("a proxy");
        client.set_read_timeout(Some(PATIENCE)).expect("a limit");
        client
    }

    fn unreached(&self) -> u64 {
        self.counts.unreached.load(Relaxed)
    }

    fn end(self) {
        self.stop.ask();
        let forwarded = self.forwarding.join().expect("it runs to its end");
        assert!(forwarded.is_ok());
    }
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn clients_of_a_server_that_answers_no_syn_see_an_end_in_time() {
    let server = Deaf::new();
    let patience = Duration::from_millis(700);
    let running = Setting::new(server.address, patience).run();
    let began = Instant::now();
    let mut clients = [running.client(), running.client()];
    for client in &mut clients {
        assert_eq!(client.read(&mut [0; 1]).expect("an end"), 0);
        assert!(began.elapsed() >= patience, "{:?}", began.elapsed());
    }
    assert_eq!(running.unreached(), 2);
    running.end();
}

#[test]
fn a_client_that_hangs_up_meanwhile_is_seen() {
    let server = Deaf::new();
    let running = Setting::new(server.address, NEVER).run();
    let stays = running.client();
    drop(running.client());
    until("the one that went is seen", || running.unreached() == 1);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(running.unreached(), 1, "the other one waits on");
    drop(stays);
    until("and the other one", || running.unreached() == 2);
    running.end();
}

#[test]
fn what_a_client_said_before_it_hung_up_reaches_the_server() {
    let server = Deaf::new();
    let running = Setting::new(server.address, NEVER).run();
    running.client().write_all(b"cancel that").expect("sent");
    // Time to see that it has gone.
    thread::sleep(Duration::from_millis(100));
    assert_eq!(server.hears(), b"cancel that");
    assert_eq!(running.unreached(), 0);
    running.end();
}

#[test]
fn a_slot_that_is_tried_once_more_keeps_what_it_has() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = server.local_addr().expect("bound");
    let mut setting = Setting::new(address, NEVER);
    let proxy = &mut setting.proxy;
    let client = TcpStream::connect(setting.address).expect("a proxy");
    let now = Instant::now();
    until("it is open", || {
        proxy.accept_all(now);
        if proxy.slots.is_empty() {
            return false;
        }
        proxy.connect(0);
        matches!(proxy.slots[0], Slot::Open(_))
    });
    // As when the system told of both of its sockets before.
    proxy.connect(0);
    proxy.end_overdue(now + 2 * NEVER);
    assert!(matches!(proxy.slots[0], Slot::Open(_)));
    assert_eq!(setting.counts.unreached.load(Relaxed), 0);
    drop(client);
}

/// Who cancels a statement on PostgreSQL may say so and go at once, before the server has agreed to TLS.
#[test]
fn what_a_client_said_before_it_hung_up_reaches_a_server_with_tls() {
    const CANCEL: &[u8] = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x02";
    let files = Files::make();
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = server.local_addr().expect("bound");
    let url = format!("postgres://{address}?tls=required");
    let url = wire::ServerUrl::parse(&url).expect("valid");
    let ends = Ends::new(&files.certificate, &files.key, &url).expect("usable");
    let running = Setting::with_tls(address, NEVER, Some(ends)).run();
    running.client().write_all(CANCEL).expect("sent");
    let (mut proxy, _) = server.accept().expect("a client in time");
    proxy.set_read_timeout(Some(PATIENCE)).expect("a limit");
    proxy.read_exact(&mut [0; 8]).expect("a request for TLS");
    // Time to see that the client has gone.
    thread::sleep(Duration::from_millis(100));
    proxy.write_all(b"S").expect("sent");
    let mut tls = files.server();
    let (mut heard, mut says, mut piece) = (Vec::new(), Vec::new(), [0; 4096]);
    loop {
        let read = proxy.read(&mut piece).expect("an end in time");
        if read == 0 {
            break;
        }
        let open = tls.open(&piece[..read], |plain| heard.extend_from_slice(plain));
        open.expect("TLS");
        tls.seal(&[], &mut says).expect("sealed");
        // The other side may have gone by then.
        let _ = proxy.write_all(&std::mem::take(&mut says));
    }
    assert_eq!(heard, CANCEL);
    drop(proxy);
    running.end();
}
