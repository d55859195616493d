/**
 * Runs a bare relay in a separate process: a WebSocket server that forwards the messages of two
 * sockets with the same path to each other. The process first sends its URL, and then answers
 * questions about its use of this machine.
 */
import type { AddressInfo } from 'node:net';
import { WebSocketServer, type WebSocket } from 'ws';
import { answerUsage } from './usage.ts';

/** Unsent bytes of a target at which its source is paused. */
const HIGH_BYTES = 1024 * 1024;

/** Sockets whose other end has not connected yet, by path. */
const alone = new Map<string, WebSocket>();
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });

function forward(source: WebSocket, target: WebSocket): void {
  source.on('message', (message: Buffer) => {
    target.send(message, () => {
      if (target.bufferedAmount < HIGH_BYTES) source.resume();
    });
    if (target.bufferedAmount >= HIGH_BYTES) source.pause();
  });
  source.on('close', () => target.close());
}

server.on('connection', (socket, { url = '' }) => {
  socket.on('error', () => {});
  const other = alone.get(url);
  if (other === undefined) {
    socket.pause();
    alone.set(url, socket);
    return;
  }
  alone.delete(url);
  forward(socket, other);
  forward(other, socket);
  other.resume();
});
server.on('listening', () => process.send!({ url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}` }));
answerUsage();
