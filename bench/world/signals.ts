/** What ranks' tabs send each other while links are made. */
import type { LinkSignal, PeerSignal } from '../../src/protocol/control.ts';

/**
 * What one rank's tab tells another's, over the process that opened them: of an attempt of the
 * engine's, or of one for the page alone.
 */
export type TabSignal =
  | { for: 'worker'; attempt: number; signal: LinkSignal }
  | { for: 'page'; description: RTCSessionDescriptionInit }
  | { for: 'page'; candidate: RTCIceCandidateInit }
  | { for: 'page-link'; signal: PeerSignal };

export type WorkerSignal = Extract<TabSignal, { for: 'worker' }>;
export type PageSignal = Extract<TabSignal, { for: 'page' }>;
export type PageLinkSignal = Extract<TabSignal, { for: 'page-link' }>;
