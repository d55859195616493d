/** A worker's connections that its page opens. Replies of the page come late or never. */
import { expect, test } from 'vitest';
import {
  createRelayedConnector,
  PeerRelayHost,
  type PeerRelayReply,
  type PeerRelayRequest,
} from '../../../src/engine/membership/peerRelay.ts';
import { UNKNOWN_LINK_DESCRIPTION } from '../../../src/transport/link.ts';
import type { RequestTabPort } from '../../../src/transport/broker.ts';
import type { PeerConnection } from '../../../src/transport/peerLink.ts';

/** The part of a data channel that a link uses. */
const createChannel = () => ({ onopen: null, close: () => {} }) as unknown as RTCDataChannel;
const noPort: RequestTabPort = () => ({ port: Promise.reject(new Error('There is none.')), cancel: () => {} });
const OPTIONS = { initiator: true, iceServers: [], onsignal: () => {} };

async function openLink() {
  const asked: PeerRelayRequest[] = [];
  const relay = createRelayedConnector((request) => asked.push(request));
  const { link } = relay.connect(OPTIONS);
  const channel = createChannel();
  relay.receive({ type: 'peer-channel', id: 1, channel });
  channel.onopen?.(new Event('open'));
  return { relay, asked, link: await link };
}

test('a question about a link is answered even if its connection closes before the answer', async () => {
  const { relay, asked, link } = await openLink();
  const description = link.describe();
  expect(asked.at(-1)).toEqual({ type: 'peer-describe', id: 1 });
  relay.receive({ type: 'peer-gone', id: 1, message: 'it was closed.' });
  expect(await description).toEqual({ ...UNKNOWN_LINK_DESCRIPTION, connections: 1 });
  // The link is closed a moment later, because frames may still arrive.
  expect(link.state).toBe('open');
  expect(await link.describe()).toEqual({ ...UNKNOWN_LINK_DESCRIPTION, connections: 1 });
});

test('a page answers a question about a link even if the statistics of the connection fail', async () => {
  const replies: PeerRelayReply[] = [];
  const connection: PeerConnection = {
    ...{ channel: createChannel(), onclose: null, onchannel: null, signal: () => {}, close: () => {} },
    describe: () => Promise.reject(new Error('The connection is closed.')),
  };
  const host = new PeerRelayHost(
    () => connection,
    noPort,
    (reply) => replies.push(reply),
  );
  host.receive({ type: 'peer-connect', id: 1, initiator: true, iceServers: [] });
  host.receive({ type: 'peer-describe', id: 1 });
  await expect
    .poll(() => replies.at(-1))
    .toEqual({ type: 'peer-description', id: 1, description: UNKNOWN_LINK_DESCRIPTION });
});

test('a worker learns from its page that a connection has stalled', async () => {
  const { relay, link } = await openLink();
  const stalls: boolean[] = [];
  link.onstall = (isStalled) => stalls.push(isStalled);
  const connection: PeerConnection = {
    ...{ channel: createChannel(), onclose: null, onchannel: null, signal: () => {}, close: () => {} },
    describe: () => Promise.resolve(UNKNOWN_LINK_DESCRIPTION),
  };
  const host = new PeerRelayHost(
    () => connection,
    noPort,
    (reply) => {
      if (reply.type === 'peer-stall') relay.receive(reply);
    },
  );
  host.receive({ type: 'peer-connect', id: 1, initiator: true, iceServers: [] });
  for (const isStalled of [true, false]) connection.onstall!(isStalled);
  expect(stalls).toEqual([true, false]);
});
