/** Signals between ranks' tabs. */
import type { LinkSignal, PeerSignal } from '../../src/protocol/linkSignal.ts';

/**
 * A signal between the tabs of two ranks, sent through the process that opened the tabs. It belongs
 * to a link of the engine, or to a connection that only the page uses.
 */
export type TabSignal =
  | { for: 'worker'; attempt: number; signal: LinkSignal }
  | { for: 'page'; description: RTCSessionDescriptionInit }
  | { for: 'page'; candidate: RTCIceCandidateInit }
  | { for: 'page-link'; signal: PeerSignal };

export type WorkerSignal = Extract<TabSignal, { for: 'worker' }>;
export type PageSignal = Extract<TabSignal, { for: 'page' }>;
export type PageLinkSignal = Extract<TabSignal, { for: 'page-link' }>;
