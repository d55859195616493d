import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { awaitServer } from '../../launcher/awaitServer.ts';
import { selfSignedCertificate, startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { systemClock, type Clock } from '../../src/util/clock.ts';
import { TimeoutError } from '../../src/util/errors.ts';
import { ManualClock } from '../manualClock.ts';

let server: SignalingServer | null = null;
afterEach(() => server?.close());

/** Returns a port on which no process listens. */
async function freePort(): Promise<number> {
  const brief = await startSignaling({ logLevel: 'silent' });
  await brief.close();
  return brief.port;
}

const never = new AbortController().signal;

function waitFor(url: string, timeoutMs: number, signal = never, clock: Clock = systemClock) {
  const notes: string[] = [];
  const waiting = awaitServer(url, timeoutMs, { clock, signal, note: (line) => void notes.push(line) });
  return { waiting, notes };
}

test('awaitServer waits for a server that starts later, and accepts any certificate', async () => {
  const port = await freePort();
  const { waiting } = waitFor(`https://127.0.0.1:${port}`, 15_000);
  server = await startSignaling({ port, tls: await selfSignedCertificate(), logLevel: 'silent' });
  await expect(waiting).resolves.toBeUndefined();
});

test('awaitServer rejects after the timeout with the URL of the server', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const { waiting } = waitFor(url, 1_000);
  await expect(waiting).rejects.toThrow(TimeoutError);
  await expect(waiting).rejects.toThrow(`No server answered at ${url} within 1 s`);
});

test('awaitServer rejects when its signal is aborted', async () => {
  const controller = new AbortController();
  const { waiting } = waitFor(`http://127.0.0.1:${await freePort()}`, 600_000, controller.signal);
  controller.abort(new Error('Ctrl-C'));
  await expect(waiting).rejects.toThrow();
});

/** Lets `seconds` pass between attempts, which take no time of this clock. */
async function pass(clock: ManualClock, seconds: number): Promise<void> {
  for (const end = clock.now() + seconds * 1000; clock.now() < end;) {
    await expect.poll(() => clock.untilNext, { interval: 1 }).not.toBeNull();
    clock.advance(Math.min(clock.untilNext!, end - clock.now()));
  }
}

test('awaitServer says every few seconds why the server does not answer, and later once a minute', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const clock = new ManualClock();
  const controller = new AbortController();
  const { waiting, notes } = waitFor(url, Number.POSITIVE_INFINITY, controller.signal, clock);
  await pass(clock, 30);
  expect(notes.length).toBeGreaterThanOrEqual(3);
  expect(notes[0]).toMatch(
    /^The server at http.* has not answered for \d s: no program listens on this port\. Still trying\.$/,
  );
  await pass(clock, 50);
  const early = notes.length;
  await pass(clock, 600);
  expect(notes.length - early).toBeLessThanOrEqual(10);
  controller.abort(new Error('Ctrl-C'));
  await expect(waiting).rejects.toThrow('Ctrl-C');
});

test('awaitServer recognizes a program that is not a peergrad server, and a program without https', async () => {
  const other = http.createServer((_, response) => response.writeHead(404).end());
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  const { port } = other.address() as AddressInfo;
  await expect(waitFor(`http://127.0.0.1:${port}`, 0).waiting).rejects.toThrow(
    'answers with the HTTP status 404. Start',
  );
  await expect(waitFor(`https://127.0.0.1:${port}`, 0).waiting).rejects.toThrow('does not use https. Start');
  await new Promise((resolve) => other.close(resolve));
});
