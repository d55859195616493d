import { afterEach, expect, test } from 'vitest';
import { awaitServer } from '../../launcher/awaitServer.ts';
import { selfSignedCertificate, startSignaling, type SignalingServer } from '../../signaling/index.ts';
import { TimeoutError } from '../../src/util/errors.ts';

let server: SignalingServer | null = null;
afterEach(() => server?.close());

/** Returns a port on which no process listens. */
async function freePort(): Promise<number> {
  const brief = await startSignaling({ logLevel: 'silent' });
  await brief.close();
  return brief.port;
}

const never = new AbortController().signal;

test('awaitServer waits for a server that starts later, and accepts any certificate', async () => {
  const port = await freePort();
  const waiting = awaitServer(`https://127.0.0.1:${port}`, 15_000, never);
  server = await startSignaling({ port, tls: await selfSignedCertificate(), logLevel: 'silent' });
  await expect(waiting).resolves.toBeUndefined();
});

test('awaitServer rejects after the timeout with the URL of the server', async () => {
  const url = `http://127.0.0.1:${await freePort()}`;
  const waiting = awaitServer(url, 1_000, never);
  await expect(waiting).rejects.toThrow(TimeoutError);
  await expect(waiting).rejects.toThrow(`No server answered at ${url} within 1 s`);
});

test('awaitServer rejects when its signal is aborted', async () => {
  const controller = new AbortController();
  const waiting = awaitServer(`http://127.0.0.1:${await freePort()}`, 600_000, controller.signal);
  controller.abort(new Error('Ctrl-C'));
  await expect(waiting).rejects.toThrow();
});
