/**
 * The entry of the engine's worker. It creates a session and connects it to the page, which owns
 * the peer connections.
 */
import type { EngineCommand } from '../protocol/commands.ts';
import type { EngineEvent } from '../protocol/events.ts';
import { connectThroughServer } from '../transport/serverLink.ts';
import { connectTab } from '../transport/tabLink.ts';
import { ThreadActivity } from '../util/activity.ts';
import { systemClock } from '../util/clock.ts';
import { setDebugPatterns } from '../util/debugLog.ts';
import { browserId } from './membership/browserId.ts';
import { runUnlessOtherTabDoes } from './storage/browserLock.ts';
import { Checkpoints } from './storage/checkpoints.ts';
import { openAppDevice } from './device/appDevice.ts';
import { EventBatches } from './eventBatches.ts';
import { createPulseSocketOpener } from './membership/pulseSocket.ts';
import { createRelayedConnector, type PeerRelayReply, type PeerRelayRequest } from './membership/peerRelay.ts';
import { Session } from './session.ts';

/** Page to worker. */
export type ToEngineWorker =
  | { type: 'command'; command: EngineCommand }
  | { type: 'relay'; reply: PeerRelayReply }
  /** The patterns of the debug log. */
  | { type: 'debug'; patterns: string };
/** Worker to page. */
export type FromEngineWorker =
  | { type: 'events'; events: readonly EngineEvent[] }
  | { type: 'relay'; request: PeerRelayRequest };

const post = (message: FromEngineWorker): void => globalThis.postMessage(message);
const events = new EventBatches(systemClock, (batch) => post({ type: 'events', events: batch }));
const relay = createRelayedConnector((request) => post({ type: 'relay', request }));
const activity = new ThreadActivity(systemClock);
const session = new Session({
  clock: systemClock,
  activity,
  random: Math.random,
  today: Date.now,
  openSocket: createPulseSocketOpener(activity, systemClock),
  browserId,
  openDevice: openAppDevice,
  openCheckpoints: () => Checkpoints.open(),
  whileAlone: runUnlessOtherTabDoes,
  connectPeer: relay.connect,
  connectTab: (options) => connectTab(relay.requestTabPort, options),
  connectServer: (options) => connectThroughServer({ ...options, openSocket: (url) => new WebSocket(url), crypto }),
  emit: (event) => events.add(event),
  baseUrl: globalThis.location.origin,
});

globalThis.addEventListener('message', ({ data }: MessageEvent<ToEngineWorker>) => {
  if (data.type === 'command') {
    if (data.command.type === 'visibility') events.isWatched = data.command.isWatched;
    session.command(data.command);
  } else if (data.type === 'debug') setDebugPatterns(data.patterns);
  else relay.receive(data.reply);
});
