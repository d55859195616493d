/** Chooses the members that a newcomer asks for the state of the run, and limits their number. */

/** Milliseconds between the failure of a feed and the next attempt. */
export const FEED_RETRY_MS = 1_000;
/** After this many feeders in a row that sent nothing, a newcomer takes part without a feed. */
const MAX_FEEDERS = 3;

/**
 * Returns the members to avoid after `feeder` has failed.
 *
 * @param hasSent whether the feeder had sent a part of the state.
 */
export function avoidedFeedersAfter(avoids: readonly string[], feeder: string, hasSent: boolean): readonly string[] {
  return hasSent ? [] : [...avoids, feeder];
}

/** Whether another feeder may help. */
export function mayTryAnotherFeeder(avoids: readonly string[]): boolean {
  return avoids.length < MAX_FEEDERS;
}
