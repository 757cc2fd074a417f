//! A real Chromium without a window, driven over W3C `WebDriver`: what a person would see and do on the page.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use base64::Engine as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{
    Api, Invocation, Scratch, eventually,
    process::{kill_hard, pid_of, processes_of},
    program, skip, within, write_file, write_file_mode,
};

/// The name of an element in answers of `WebDriver`.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// The screen of a browser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

impl Screen {
    pub(crate) const DESK: Self = Self {
        width: 1280,
        height: 900,
        dark: false,
    };
    pub(crate) const PHONE: Self = Self {
        width: 390,
        height: 844,
        dark: false,
    };
    pub(crate) const NARROW: Self = Self {
        width: 320,
        height: 640,
        dark: false,
    };

    pub(crate) const fn dark(self) -> Self {
        Self { dark: true, ..self }
    }
}

/// A browser with a profile of its own. Dropping it ends it and everything that it started.
#[derive(Debug)]
pub(crate) struct Browser {
    api: Api,
    session: String,
    driver: Child,
    scratch: Scratch,
}

/// Where the driver and the browser write, below the directory of the test.
const LOG: &str = "chromedriver.log";

/// An element of the page.
#[derive(Debug, Clone)]
pub(crate) struct Element(Value);

impl Browser {
    /// Starts one; `None`, said as a skip, where there is none.
    pub(crate) async fn start(screen: Screen) -> Option<Self> {
        let scratch = Scratch::new();
        let (Some(chromedriver), Some(chromium)) = (program("chromedriver"), chromium(&scratch)) else {
            skip("no chromium and chromedriver for the tests of the page");
            return None;
        };
        let (driver, port) = driver_on_a_port(&chromedriver, &scratch).await;
        let mut browser = Self {
            api: Api::new(&format!("http://127.0.0.1:{port}"), None),
            session: String::new(),
            driver,
            scratch,
        };
        let profile = browser.scratch.dir("profile");
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--lang=en-US",
        ];
        let mut arguments: Vec<String> = arguments.iter().map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.display()));
        arguments.push(format!("--window-size={},{}", screen.width, screen.height));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": chromium, "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let made = browser.command(Method::POST, "/session", Some(wanted)).await;
        made["sessionId"]
            .as_str()
            .expect("a session of WebDriver")
            .clone_into(&mut browser.session);
        browser.set_screen(screen).await;
        Some(browser)
    }

    /// Changes the size and the colours of the screen.
    pub(crate) async fn set_screen(&self, screen: Screen) {
        let Screen { width, height, dark } = screen;
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 }),
        )
        .await;
        let scheme = if dark { "dark" } else { "light" };
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": [
                { "name": "prefers-color-scheme", "value": scheme },
                { "name": "prefers-reduced-motion", "value": "reduce" },
            ] }),
        )
        .await;
    }

    pub(crate) async fn open(&self, url: &str) {
        self.post("/url", json!({ "url": url })).await;
    }

    pub(crate) async fn reload(&self) {
        self.post("/refresh", json!({})).await;
    }

    /// The address that the address bar shows.
    pub(crate) async fn address(&self) -> String {
        let path = format!("/session/{}/url", self.session);
        let address = self.command(Method::GET, &path, None).await;
        address.as_str().expect("an address").to_owned()
    }

    /// Runs the body of a function in the page.
    pub(crate) async fn run(&self, script: &str, arguments: Value) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": arguments }))
            .await
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"), json!([])).await
    }

    /// Waits until an expression of the page is true. The page itself looks again and again: each command of `WebDriver`
    /// takes some milliseconds of a processor.
    #[track_caller]
    pub(crate) fn until<'a>(&'a self, expression: &str) -> impl Future<Output = Value> + use<'a> {
        let page = "document.body && document.body.innerText";
        let focus = "document.activeElement && document.activeElement.cloneNode().outerHTML";
        let script = format!(
            "new Promise((done, fail) => {{
                const end = performance.now() + 1000;
                const look = () => {{
                    try {{
                        if ({expression}) done([true]);
                        else if (performance.now() > end) done([false, {focus}, {page}]);
                        else setTimeout(look, 10);
                    }} catch (error) {{ fail(error); }}
                }};
                look();
            }})"
        );
        eventually(
            // A failure shows what had the focus and what the page said instead.
            "true on the page",
            move || self.evaluated(script.clone()),
            |seen| seen[0] == true,
        )
    }

    /// What a promise of the page comes to; null where the page went away meanwhile.
    async fn evaluated(&self, promise: String) -> Value {
        let path = format!("/session/{}/goog/cdp/execute", self.session);
        let evaluate = json!({ "cmd": "Runtime.evaluate", "params": {
            "expression": promise, "awaitPromise": true, "returnByValue": true,
        } });
        let answer = self
            .api
            .send(self.api.request(Method::POST, &path).json(&evaluate))
            .await;
        let value = &answer.json()["value"];
        if answer.status != 200 {
            let message = value["message"].as_str().unwrap_or_default();
            let is_gone = ["navigated", "context", "destroyed"]
                .iter()
                .any(|word| message.contains(word));
            assert!(is_gone, "{promise}: {value}\n{}", driver_log(&self.scratch));
            return Value::Null;
        }
        assert!(value["exceptionDetails"].is_null(), "{promise}: {value}");
        value["result"]["value"].clone()
    }

    /// Waits for an element that is shown.
    pub(crate) async fn shown(&self, selector: &str) -> Element {
        self.until(&format!(
            "[...document.querySelectorAll({})].some((element) => element.checkVisibility())",
            json!(selector)
        ))
        .await;
        let script = "const found = [...document.querySelectorAll(arguments[0])].find((element) => element.checkVisibility());
            return [found ?? null, found ? '' : arguments[0] + ' in: ' + document.body?.innerText];";
        let found = eventually(
            "shown on the page",
            || self.run(script, json!([selector])),
            |seen| seen[0].is_object(),
        )
        .await;
        Element(found[0].clone())
    }

    /// Waits until what was done so far is on the screen, and the page has seen where it put things.
    async fn painted(&self) {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";
        self.devtools(
            "Runtime.evaluate",
            json!({ "expression": frames, "awaitPromise": true }),
        )
        .await;
    }

    /// Clicks an element with the mouse, once it is shown.
    pub(crate) async fn click(&self, selector: &str) {
        self.painted().await;
        let Element(element) = self.shown(selector).await;
        let id = element[ELEMENT]
            .as_str()
            .unwrap_or_else(|| panic!("{selector}: {element}"));
        // Not below the head of the page, which stays where it is, nor below what moves while the page is laid out.
        let is_in_front = "arguments[0].scrollIntoView({ block: 'center' });
            const { x, y, width, height } = arguments[0].getClientRects()[0];
            return arguments[0].contains(document.elementFromPoint(x + width / 2, y + height / 2));";
        eventually(
            &format!("{selector} in front"),
            || self.run(is_in_front, json!([element])),
            |is| *is == true,
        )
        .await;
        self.post(&format!("/element/{id}/click"), json!({})).await;
    }

    /// Writes into a field.
    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let Element(element) = self.shown(selector).await;
        let id = element[ELEMENT].as_str().expect("an element");
        self.post(&format!("/element/{id}/value"), json!({ "text": text }))
            .await;
    }

    /// Chooses the value of a list of choices, as a click on it does.
    pub(crate) async fn choose(&self, selector: &str, value: &str) {
        self.shown(selector).await;
        let script = "return [...document.querySelector(arguments[0]).options].find((option) => option.value === arguments[1])";
        let option = eventually(
            "offered on the page",
            || self.run(script, json!([selector, value])),
            Value::is_object,
        )
        .await;
        let id = option[ELEMENT].as_str().expect("an element");
        self.post(&format!("/element/{id}/click"), json!({})).await;
    }

    /// Presses keys one after the other, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                let key = key.to_string();
                [
                    json!({ "type": "keyDown", "value": key }),
                    json!({ "type": "keyUp", "value": key }),
                ]
            })
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", json!({ "actions": [keyboard] })).await;
    }

    /// What an element shows.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? '(nothing)'";
        let text = self.run(script, json!([selector])).await;
        text.as_str().expect("a text").to_owned()
    }

    /// Waits until an element shows a text.
    #[track_caller]
    pub(crate) fn says<'a>(&'a self, selector: &str, text: &str) -> impl Future<Output = Value> + use<'a> {
        let (selector, text) = (json!(selector), json!(text));
        self.until(&format!(
            "document.querySelector({selector})?.innerText.includes({text})"
        ))
    }

    /// A command of the developer tools.
    pub(crate) async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post(
            "/goog/cdp/execute",
            json!({ "cmd": command, "params": parameters }),
        )
        .await
    }

    /// Opens another tab with this address and turns to it; returns the tab that was there.
    pub(crate) async fn open_tab(&self, url: &str) -> String {
        let path = format!("/session/{}/window", self.session);
        let before = self.command(Method::GET, &path, None).await;
        let made = self.post("/window/new", json!({ "type": "tab" })).await;
        self.turn_to(made["handle"].as_str().expect("a tab")).await;
        self.open(url).await;
        before.as_str().expect("a tab").to_owned()
    }

    /// Turns to another tab.
    pub(crate) async fn turn_to(&self, tab: &str) {
        self.post("/window", json!({ "handle": tab })).await;
    }

    /// Cuts the page off from everything, or lets it back.
    pub(crate) async fn set_offline(&self, offline: bool) {
        let conditions = json!({ "offline": offline, "latency": 0, "throughput": -1, "download_throughput": -1, "upload_throughput": -1 });
        self.post(
            "/chromium/network_conditions",
            json!({ "network_conditions": conditions }),
        )
        .await;
    }

    /// What the browser complained about since the last call: errors of scripts, of the network, of the content
    /// security policy. That the network of this machine changed is no complaint about the page: other tests make network
    /// interfaces, Chromium drops what is on its way then, and the page asks again.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({ "type": "browser" })).await;
        let entries = log.as_array().expect("entries of the log");
        entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .filter(|message| !message.ends_with("net::ERR_NETWORK_CHANGED"))
            .collect()
    }

    /// Writes what the screen shows to the folder `COUNTERSIGN_TEST_SHOTS`, where one is wanted.
    pub(crate) async fn shoot(&self, name: &str) {
        let folder = super::own_variable("COUNTERSIGN_TEST_SHOTS");
        let Some(folder) = folder.filter(|folder| !folder.is_empty()) else {
            return;
        };
        let shot = self
            .devtools(
                "Page.captureScreenshot",
                json!({ "captureBeyondViewport": true, "format": "png", "optimizeForSpeed": true }),
            )
            .await;
        let png = base64::prelude::BASE64_STANDARD
            .decode(shot["data"].as_str().expect("a picture"))
            .expect("base64");
        write_file(&Path::new(&folder).join(format!("{name}.png")), png);
        // Taking it moved everything for a moment.
        self.painted().await;
        self.until("!document.querySelector('[data-unsteady]')").await;
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        self.command(Method::POST, &path, Some(body)).await
    }

    async fn command(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let request = self.api.request(method, path);
        let answer = self
            .api
            .send(match &body {
                Some(body) => request.json(body),
                None => request,
            })
            .await;
        let answer_json = answer.json();
        assert_eq!(
            answer.status,
            200,
            "{path} {body:?}: {} {}\n{}",
            answer_json["value"]["error"],
            answer_json["value"]["message"],
            driver_log(&self.scratch)
        );
        answer_json["value"].clone()
    }
}

/// The browser to start: the headless shell where it is installed, since it starts in a third of the time.
///
/// It opens no page unless its command line names one, and the driver names none.
fn chromium(scratch: &Scratch) -> Option<PathBuf> {
    let Some(shell) = program("chromium-headless-shell") else {
        return program("chromium");
    };
    let start = scratch.join("chromium");
    let script = format!("#!/bin/sh\nexec {} \"$@\" about:blank\n", shell.display());
    write_file_mode(&start, script, 0o755);
    Some(start)
}

/// It picks a port that is free for one family of addresses and ends when another program has that of the other one:
/// then it picks another.
async fn driver_on_a_port(chromedriver: &Path, scratch: &Scratch) -> (Child, String) {
    for _ in 0..10 {
        let (mut driver, port) = start_driver(chromedriver, scratch);
        match within("the port of chromedriver", port).await {
            Ok(port) => return (driver, port),
            Err(_ended) => drop(driver.wait()),
        }
    }
    panic!("chromedriver finds no port: {}", driver_log(scratch));
}

/// What the driver and the browser said.
fn driver_log(scratch: &Scratch) -> String {
    fs::read_to_string(scratch.join(LOG)).unwrap_or_default()
}

fn start_driver(chromedriver: &Path, scratch: &Scratch) -> (Child, oneshot::Receiver<String>) {
    let log = fs::File::create(scratch.join(LOG)).expect("the log of chromedriver");
    let mut driver = Invocation::new(chromedriver)
        .args(&["--port=0", "--enable-chrome-logs"])
        .env("HOME", scratch.path())
        .env("TMPDIR", scratch.dir("tmp"))
        .env("XDG_CONFIG_HOME", scratch.dir("config"))
        .env("XDG_CACHE_HOME", scratch.dir("cache"))
        .cwd(&scratch.path())
        .start(Stdio::from(log));
    let mut stdout = BufReader::new(driver.stdout.take().expect("stdout is piped"));
    let (ready, on_ready) = oneshot::channel();
    thread::spawn(move || {
        let mut ready = Some(ready);
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let port = line
                .trim_end()
                .trim_end_matches('.')
                .rsplit_once("successfully on port ");
            if let Some((_, port)) = port
                && let Some(ready) = ready.take()
            {
                drop(ready.send(port.to_owned()));
            }
            line.clear();
        }
    });
    (driver, on_ready)
}

impl Drop for Browser {
    fn drop(&mut self) {
        let ours = processes_of(Some(pid_of(&self.driver)), &self.scratch.path());
        for process in &ours {
            kill_hard(process.pid);
        }
        drop(self.driver.wait());
        for process in ours {
            process.wait(Duration::from_secs(10));
        }
        // A helper that was being started while the others were killed.
        for process in processes_of(None, &self.scratch.path()) {
            kill_hard(process.pid);
            process.wait(Duration::from_secs(10));
        }
    }
}
