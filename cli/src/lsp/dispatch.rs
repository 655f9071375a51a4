//! Finds the function that answers a message, by the message's method.

use gen_lsp_types::{Notification, Request};
use lsp_server::{ErrorCode, RequestId, Response};

/// A request, until a function answers it.
pub(super) struct Requested<S> {
    server: S,
    request: lsp_server::Request,
    response: Option<Response>,
}

impl<S: Copy> Requested<S> {
    pub(super) fn new(server: S, request: lsp_server::Request) -> Self {
        Self { server, request, response: None }
    }

    /// Answers the request with a function, if it has the method of `R`.
    pub(super) fn on<R: Request>(self, answer: impl FnOnce(S, R::Params) -> R::Result) -> Self
    where
        R::Params: serde::de::DeserializeOwned,
        R::Result: serde::Serialize,
    {
        self.try_on::<R>(|server, params| Ok(answer(server, params)))
    }

    /// The same, with a function that may refuse with a sentence for the author.
    pub(super) fn try_on<R: Request>(
        mut self,
        answer: impl FnOnce(S, R::Params) -> Result<R::Result, String>,
    ) -> Self
    where
        R::Params: serde::de::DeserializeOwned,
        R::Result: serde::Serialize,
    {
        if self.response.is_some() || self.request.method != R::METHOD.as_str() {
            return self;
        }
        let id = self.request.id.clone();
        let params = serde_json::from_value(self.request.params.take());
        self.response = Some(match params.map(|params| answer(self.server, params)) {
            Ok(Ok(result)) => Response::new_ok(id, result),
            Ok(Err(reason)) => Response::new_err(id, ErrorCode::RequestFailed as i32, reason),
            Err(error) => Response::new_err(id, ErrorCode::InvalidParams as i32, error.to_string()),
        });
        self
    }

    /// The answer; an error for a method that no function answers.
    pub(super) fn finish(self) -> Response {
        let Self { request, response, .. } = self;
        response.unwrap_or_else(|| unknown(request.id, &request.method))
    }
}

fn unknown(id: RequestId, method: &str) -> Response {
    let message = format!("`{method}` is not supported");
    Response::new_err(id, ErrorCode::MethodNotFound as i32, message)
}

/// The content of a notification, if it has the method of `N`.
pub(super) fn read<N: Notification>(notification: &lsp_server::Notification) -> Option<N::Params>
where
    N::Params: serde::de::DeserializeOwned,
{
    (notification.method == N::METHOD.as_str())
        .then(|| serde_json::from_value(notification.params.clone()).ok())
        .flatten()
}
