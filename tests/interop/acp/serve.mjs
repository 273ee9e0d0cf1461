// Connects an app of the npm SDK: to standard input and output, or, with ACP_LISTEN, to the SDK's own
// server for HTTP and WebSockets. The server prints its port, and takes orders as lines of standard
// input. With ACP_TLS, a folder with cert.pem and key.pem, it takes HTTP/2 only.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createSecureServer } from "node:http2";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const sdk = process.env.ACP_NPM_SDK;
const load = (path) => import(pathToFileURL(`${sdk}/${path}`).href);

// The SDK's handler takes requests of HTTP/1.1: node's requests of HTTP/2 name url and host in headers
// whose names the handler cannot read.
function readable(request) {
  if (request.httpVersionMajor < 2) return request;
  const { url, method, headers } = request;
  Object.defineProperties(request, { url: { value: url }, method: { value: method } });
  const plain = Object.entries(headers).filter(([name]) => !name.startsWith(":"));
  const value = { ...Object.fromEntries(plain), host: headers[":authority"] };
  return Object.defineProperty(request, "headers", { value });
}

export async function serve(app, ndJsonStream) {
  if (!process.env.ACP_LISTEN) {
    app.connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
    return;
  }
  const { AcpServer } = await load("dist/transports/server.js");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await load(
    "dist/transports/node-adapter.js",
  );
  const { WebSocketServer } = await load("../../ws/wrapper.mjs");
  const server = new AcpServer({ agent: app });
  const sockets = new WebSocketServer({ noServer: true });
  const upgrade = createNodeWebSocketUpgradeHandler(server, sockets);
  const token = process.env.ACP_TOKEN;
  const refusal = (request) =>
    (token && request.headers.authorization !== `Bearer ${token}` && "401 Unauthorized") ||
    (request.url !== "/acp" && "404 Not Found");
  const handler = createNodeHttpHandler(server);
  const streams = new Set();
  const requests = [];
  const folder = process.env.ACP_TLS;
  const pem = (name) => readFileSync(`${folder}/${name}.pem`);
  const create = folder
    ? (listener) => createSecureServer({ cert: pem("cert"), key: pem("key") }, listener)
    : createServer;
  const http = create((request, response) => {
    request = readable(request);
    const refused = refusal(request);
    if (refused) {
      response.writeHead(Number(refused.slice(0, 3)));
      response.end(`no: ${request.headers.authorization}`);
      return;
    }
    const session = request.headers["acp-session-id"];
    requests.push(`${request.method} ${request.headers["acp-protocol-version"]} ${session}`);
    response.setHeader("Set-Cookie", "affinity=here; Path=/");
    if (request.headers.cookie === "affinity=here") requests.push("cookie");
    if (request.method === "GET") {
      streams.add(response);
      response.on("close", () => streams.delete(response));
    }
    handler(request, response);
  });
  http.on("upgrade", (request, socket, head) => {
    const refused = refusal(request);
    if (refused) socket.end(`HTTP/1.1 ${refused}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
    else upgrade(request, socket, head);
  });
  const links = new Set();
  http.on("connection", (socket) => {
    links.add(socket);
    socket.on("close", () => links.delete(socket));
  });
  const orders = {
    cut: () => links.forEach((socket) => socket.destroy()),
    close: () => server.close(),
    garbage: () => {
      sockets.clients.forEach((socket) => {
        socket.send("this is no message");
        socket.send(Buffer.from([0xff, 0xfe]), { binary: true });
        socket.send("[]");
      });
      streams.forEach((stream) => {
        stream.write("data: this is no message\n\n");
        stream.write(Buffer.from("data: \xff\xfe\n\n", "latin1"));
        stream.write("data: []\n\n");
      });
    },
    large: () => {
      sockets.clients.forEach((socket) => socket.send("x".repeat(100_000)));
      streams.forEach((stream) => stream.write(`data: ${"x".repeat(100_000)}\n\n`));
    },
    requests: () => console.log(JSON.stringify(requests)),
  };
  createInterface({ input: process.stdin })
    .on("line", (line) => orders[line]())
    .on("close", () => process.exit(0));
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}
