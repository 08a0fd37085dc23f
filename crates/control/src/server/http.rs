//! Metrics and the status page over HTTP/1.1: one request and its response per connection. Nothing can be
//! changed this way.

use std::{
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::epoll::EventFlags,
    io::Errno,
    net::{Shutdown, shutdown},
};

use super::{answer::Answer, client::Disposition, outbox::Outbox, page};
use crate::protocol::{Answered, Request};

/// Longest lifetime of a connection, whatever the client does: Prometheus itself gives up after 10
/// seconds by default (`scrape_timeout`).
const EXCHANGE: Duration = Duration::from_secs(10);

/// Most bytes of a request line and its headers: the default of nginx and Apache.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Most headers of a request. Prometheus sends six.
const HEADERS_MAX: usize = 64;

/// Media type of the metrics (OpenMetrics 1.0).
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A scrape's connection.
#[derive(Debug)]
pub struct Exchange {
    socket: OwnedFd,
    deadline: Instant,
    stage: Stage,
    outbox: Outbox,
}

#[derive(Debug)]
enum Stage {
    Reading(Vec<u8>),
    Writing,
    /// Everything is sent. Further input is read and discarded: closing a connection with unread
    /// bytes resets it, and the response may be lost.
    Draining,
}

impl Exchange {
    pub fn new(socket: OwnedFd, now: Instant) -> Self {
        let stage = Stage::Reading(Vec::new());
        Self { socket, deadline: now + EXCHANGE, stage, outbox: Outbox::default() }
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Returns the time at which the connection is closed at the latest.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    pub fn interest(&self) -> EventFlags {
        match self.stage {
            Stage::Reading(_) | Stage::Draining => EventFlags::IN,
            Stage::Writing => EventFlags::OUT,
        }
    }

    pub fn on_ready(&mut self, ready: EventFlags, answer: &dyn Answer) -> Disposition {
        if ready.intersects(EventFlags::ERR | EventFlags::HUP) {
            return Disposition::Close;
        }
        let mut bytes = [0; HEAD_BYTES_MAX];
        match &mut self.stage {
            Stage::Reading(head) => {
                match rustix::io::read(&self.socket, &mut bytes) {
                    Ok(0) => return Disposition::Close,
                    Ok(length) => head.extend_from_slice(&bytes[..length]),
                    Err(Errno::AGAIN | Errno::INTR) => return Disposition::Keep,
                    Err(_) => return Disposition::Close,
                }
                let Some(response) = respond(head, answer) else { return Disposition::Keep };
                self.outbox.push(&response);
                self.stage = Stage::Writing;
                self.write()
            }
            Stage::Writing => self.write(),
            Stage::Draining => match rustix::io::read(&self.socket, &mut bytes) {
                Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => Disposition::Keep,
                Ok(0) | Err(_) => Disposition::Close,
            },
        }
    }

    fn write(&mut self) -> Disposition {
        if self.outbox.flush(&self.socket).is_err() {
            return Disposition::Close;
        }
        if self.outbox.is_empty() {
            if shutdown(&self.socket, Shutdown::Write).is_err() {
                return Disposition::Close;
            }
            self.stage = Stage::Draining;
        }
        Disposition::Keep
    }
}

/// Returns the response to the bytes read so far; `None` if the request is incomplete.
fn respond(head: &[u8], answer: &dyn Answer) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let (method, path) = match request.parse(&head[..head.len().min(HEAD_BYTES_MAX)]) {
        Ok(httparse::Status::Complete(_)) => (request.method, request.path),
        Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES_MAX => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Some(refusal("431 Request Header Fields Too Large", ""));
        }
        Err(_) => return Some(refusal("400 Bad Request", "")),
    };
    let (method, path) = (method.unwrap_or_default(), path.unwrap_or_default());
    let body = method != "HEAD";
    if !matches!(method, "GET" | "HEAD") {
        return Some(refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n"));
    }
    let request = match path.split('?').next() {
        Some("/metrics") => Request::Metrics {},
        Some("/") => Request::Status {},
        _ => {
            let text = "try / or /metrics\n";
            return Some(response("404 Not Found", "text/plain", "", text, body));
        }
    };
    Some(match answer.answer(request) {
        Ok(Answered::Metrics { text }) => response("200 OK", CONTENT_TYPE, "", &text, body),
        Ok(Answered::Status(status)) => {
            let text = page::render(&status, page::now_unix_ms());
            response("200 OK", page::CONTENT_TYPE, page::HEADERS, &text, body)
        }
        Ok(_) | Err(_) => refusal("503 Service Unavailable", ""),
    })
}

fn refusal(status: &str, headers: &str) -> Vec<u8> {
    response(status, "text/plain", headers, &format!("{status}\n"), true)
}

fn response(status: &str, kind: &str, headers: &str, text: &str, body: bool) -> Vec<u8> {
    let length = text.len();
    let text = if body { text } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         {headers}Connection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Refusal, RefusalKind};

    struct Metrics;

    impl Answer for Metrics {
        fn answer(&self, request: Request) -> Result<Answered, Refusal> {
            match request {
                Request::Metrics {} => Ok(Answered::Metrics { text: "a 1\n".to_owned() }),
                _ => Err(Refusal::new(RefusalKind::Internal, "only metrics are asked for")),
            }
        }
    }

    fn said(request: &str) -> Option<String> {
        let response = respond(request.as_bytes(), &Metrics)?;
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nConnection: close"), "{head}");
        let status = head.split("\r\n").next().unwrap();
        Some(format!("{}|{body}", status.strip_prefix("HTTP/1.1 ").unwrap()))
    }

    #[test]
    fn get_and_head_of_metrics_are_answered_and_everything_else_is_refused() {
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK|a 1\n"),
            ("GET /metrics?name[]=a HTTP/1.0\r\n\r\n", "200 OK|a 1\n"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK|"),
            ("GET /x HTTP/1.1\r\n\r\n", "404 Not Found|try / or /metrics\n"),
            ("HEAD /x HTTP/1.1\r\n\r\n", "404 Not Found|"),
            ("GET /metricsx HTTP/1.1\r\n\r\n", "404 Not Found|try / or /metrics\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed|405 Method Not Allowed\n"),
            ("GET /metrics\r\n\r\n", "400 Bad Request|400 Bad Request\n"),
            ("{\"request\":\"status\"}\n", "400 Bad Request|400 Bad Request\n"),
            ("\u{0}", "400 Bad Request|400 Bad Request\n"),
        ] {
            assert_eq!(said(request).as_deref(), Some(expected), "{request}");
        }
    }

    #[test]
    fn the_length_is_that_of_the_body_also_where_there_is_none() {
        for method in ["GET", "HEAD"] {
            let request = format!("{method} /metrics HTTP/1.1\r\n\r\n");
            let response = respond(request.as_bytes(), &Metrics).unwrap();
            let response = String::from_utf8(response).unwrap();
            assert!(response.contains("\r\nContent-Length: 4\r\n"), "{response}");
            assert!(
                response.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0")
            );
        }
    }

    #[test]
    fn more_is_read_until_the_head_is_whole_or_too_long() {
        let whole = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(said(&whole[..length]), None, "{length}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        assert!(said(&long).unwrap().starts_with("431 "));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: a\r\n".repeat(HEADERS_MAX + 1));
        assert!(said(&many).unwrap().starts_with("431 "));
    }
}
