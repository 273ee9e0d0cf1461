// Connects an app of the npm SDK: to standard input and output, or, with ACP_LISTEN, to the SDK's own
// server for WebSockets. The server prints its port, and takes orders as lines of standard input.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const sdk = process.env.ACP_NPM_SDK;
const load = (path) => import(pathToFileURL(`${sdk}/${path}`).href);

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
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", (request, socket, head) => {
    const token = process.env.ACP_TOKEN;
    const refused =
      (token && request.headers.authorization !== `Bearer ${token}` && "401 Unauthorized") ||
      (request.url !== "/acp" && "404 Not Found");
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
    garbage: () =>
      sockets.clients.forEach((socket) => {
        socket.send("this is no message");
        socket.send(Buffer.from([0xff, 0xfe]), { binary: true });
        socket.send("[]");
      }),
    large: () => sockets.clients.forEach((socket) => socket.send("x".repeat(100_000))),
  };
  createInterface({ input: process.stdin })
    .on("line", (line) => orders[line]())
    .on("close", () => process.exit(0));
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}
