/** The server's part of docs/BENCHMARKS.md, and its table. */
import { table } from '../table.ts';

export interface SignalingResult {
  /** Connected meanwhile. */
  clients: number;
  bytesPerConnection: number;
  /** From one tab to another over the server, milliseconds. */
  relayMs: { median: number; p99: number };
  /** A crowd that joins at once, and when the last is in. */
  joinStorm: { clients: number; ms: number; failures: number };
}

export function signalingTable({ clients, bytesPerConnection, relayMs, joinStorm }: SignalingResult): string {
  return table(
    ['signaling', 'value'],
    [
      ['clients connected', String(clients)],
      ['bytes a connection', String(bytesPerConnection)],
      ['relay, median, ms', relayMs.median.toFixed(3)],
      ['relay, p99, ms', relayMs.p99.toFixed(3)],
      [`join of ${joinStorm.clients} at once, ms`, String(joinStorm.ms)],
      ['of them failed', String(joinStorm.failures)],
    ],
  );
}

export function section(result: SignalingResult): string {
  return `## The signaling server

\`npm run -s bench -- signaling\`: a process with the server, one with all clients, on the same cores. A signal is as large as an SDP
offer with its candidates, 2 KiB. The server passes none of a training's data.

${signalingTable(result)}

A process has one core: beyond, several servers share their rooms (docs/DEPLOY.md).
`;
}
