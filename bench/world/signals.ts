/** Signals between ranks' tabs. */
import type { LinkSignal, PeerSignal } from '../../src/protocol/control.ts';

/**
 * A signal between two ranks' tabs, through the process that opened them: of the engine's link
 * attempt, or of one for the page alone.
 */
export type TabSignal =
  | { for: 'worker'; attempt: number; signal: LinkSignal }
  | { for: 'page'; description: RTCSessionDescriptionInit }
  | { for: 'page'; candidate: RTCIceCandidateInit }
  | { for: 'page-link'; signal: PeerSignal };

export type WorkerSignal = Extract<TabSignal, { for: 'worker' }>;
export type PageSignal = Extract<TabSignal, { for: 'page' }>;
export type PageLinkSignal = Extract<TabSignal, { for: 'page-link' }>;
