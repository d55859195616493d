import { describe, expect, test } from 'vitest';
import type { Link } from '../../src/transport/link.ts';
import { createMemoryLinkPair } from '../../src/transport/memoryLink.ts';
import { bridgeLink, createPortLink } from '../../src/transport/portLink.ts';
import { LINK_CASES } from './linkCompliance.ts';

function portPair(): [Link, Link] {
  const { port1, port2 } = new MessageChannel();
  return [createPortLink(port1), createPortLink(port2)];
}

/** Creates a link like that of a worker: a port that the page bridges to another link. */
function bridgedPair(): [Link, Link] {
  const [near, far] = createMemoryLinkPair();
  const { port1, port2 } = new MessageChannel();
  bridgeLink(near, port1);
  return [createPortLink(port2), far];
}

const swap = ([a, b]: [Link, Link]): [Link, Link] => [b, a];

describe.each([
  ['memory', createMemoryLinkPair],
  ['MessagePort', portPair],
  ['bridged (worker end first)', bridgedPair],
  ['bridged (far end first)', () => swap(bridgedPair())],
] satisfies [string, () => [Link, Link]][])('%s link', (_name, createPair) => {
  test.each(LINK_CASES.map((one) => [one.name, one] as const))('%s', async (_case, { alice, bob }) => {
    const [a, b] = createPair();
    await expect(Promise.all([alice(a), bob(b)])).resolves.toHaveLength(2);
    a.close();
    b.close();
  });
});

test('a handler that closes its link receives none of the frames that have already arrived', async () => {
  const [near, far] = createMemoryLinkPair();
  for (let i = 0; i < 5; i++) await near.send(new ArrayBuffer(4));
  await expect.poll(() => far.counters.framesReceived).toBe(5);
  let received = 0;
  far.onframe = () => {
    received += 1;
    if (received === 3) far.close();
  };
  expect(received).toBe(3);
});

test('a bridged link forwards which generation is to be discarded', async () => {
  const near: Link = createMemoryLinkPair()[0];
  const discarded: number[] = [];
  near.discard = (generation) => discarded.push(generation);
  const { port1, port2 } = new MessageChannel();
  bridgeLink(near, port1);
  const link = createPortLink(port2);
  link.discard?.(3);
  await expect.poll(() => discarded).toEqual([3]);
  link.close();
});

test('a bridged link forwards that it has stalled, or works again', async () => {
  const near: Link = createMemoryLinkPair()[0];
  const stalls: boolean[] = [];
  const { port1, port2 } = new MessageChannel();
  bridgeLink(near, port1);
  const link = createPortLink(port2);
  link.onstall = (isStalled) => stalls.push(isStalled);
  for (const isStalled of [true, false]) near.onstall!(isStalled);
  await expect.poll(() => stalls).toEqual([true, false]);
  link.close();
});

test('a link closes with an error if its port receives an unknown message', async () => {
  const { port1, port2 } = new MessageChannel();
  const link = createPortLink(port1);
  const gone = new Promise<Error | null>((resolve) => (link.onclose = resolve));
  port2.postMessage({ type: 'nonsense' });
  expect((await gone)?.message).toMatch(/an unknown message/);
  port2.close();
});
