/** Tests how `peergrad serve` ends after a signal. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test, vi } from 'vitest';
import { enter, TestMember } from '../signaling/helpers.ts';

// The page may need to be built first.
vi.setConfig({ testTimeout: 60_000 });

test.each([
  ['SIGTERM', 143],
  ['SIGINT', 130],
] as const)(
  'the server tells its members on %s that it closes, and the process exits with %d',
  async (signal, exit) => {
    const bin = path.resolve(import.meta.dirname, '../../launcher/bin.js');
    const serve = spawn(process.execPath, [bin, 'serve', '--port', '0', '--start-at', '2'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = once(serve, 'exit');
    const [link] = (await once(createInterface(serve.stdout), 'line')) as [string];
    const { origin, hash } = new URL(link);
    const ada = new TestMember({ url: origin });
    await enter(ada, hash.slice(1), 'Ada');
    const reason = once(ada.socket, 'close').then(([, text]) => String(text));
    serve.kill(signal);
    expect((await ada.next('refused')).code).toBe('server-closing');
    expect([await ada.closed, await reason]).toEqual([1012, 'server-closing']);
    expect((await exited)[0]).toBe(exit);
  },
);
