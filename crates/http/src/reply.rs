//! Answers.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::problem::Problem;

#[derive(Debug)]
pub(crate) struct JsonReply<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for JsonReply<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(512);
        let written = serde_json::to_writer(&mut body, &self.0);
        reply(body, written)
    }
}

fn reply(body: Vec<u8>, written: serde_json::Result<()>) -> Response {
    if let Err(error) = written {
        tracing::error!(%error, "an answer could not be written as JSON");
        return Problem::internal().into_response();
    }
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A JSON answer with another status than 200 and the place of what it tells of.
#[derive(Debug)]
pub(crate) struct Located<T> {
    pub(crate) status: StatusCode,
    pub(crate) location: String,
    pub(crate) body: T,
}

impl<T: Serialize> IntoResponse for Located<T> {
    fn into_response(self) -> Response {
        let mut response = JsonReply(self.body).into_response();
        if response.status() != StatusCode::OK {
            return response;
        }
        *response.status_mut() = self.status;
        if let Ok(location) = HeaderValue::try_from(self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}
