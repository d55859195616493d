/**
 * Feeds of a room: a newcomer receives the run's state from a member of the ring, its feeder, while
 * the ring trains. The newcomer counts as ready only after that. The server names the feeder and
 * forwards the signals of the two; it does not take part in the transfer.
 */
import { latestGeneration } from './pauses.ts';
import { isRelayInVain } from './ringOrder.ts';
import { beginsServed } from './servedPairs.ts';
import { broadcastRoom } from './roomMessage.ts';
import {
  isAway,
  isRunOn,
  isSuspended,
  nodesOf,
  noEffects,
  type RoomEvent,
  type RoomState,
  type Step,
} from './state.ts';

/** The request of a newcomer. */
type CatchUp = NonNullable<Extract<RoomEvent, { type: 'ready' }>['catchUp']>;

/**
 * A feeder is preferred for its fast line. But lines that carry 1 MiB within this number of
 * milliseconds count as equally fast.
 */
const FAST_MS = 1_000;

/**
 * Names the feeder of a newcomer. Returns `null` if the newcomer joins without a feeder: the run
 * has not trained yet or is paused, the ring is full, or the newcomer avoids all members with the
 * state.
 */
export function nameFeeder(state: RoomState, member: string, { prefers, avoids }: CatchUp): Step | null {
  const nodes = nodesOf(state);
  if (!isRunOn(state) || nodes === null || state.isRestoring || state.ring.length >= nodes.max) return null;
  const newcomer = state.members.find((one) => one.member === member);
  const busy = [...state.feeds].flatMap(([fed, { feeder }]) => (fed === member ? [] : [feeder]));
  /**
   * Milliseconds that a feeder needs to send 1 MiB to this newcomer. Frames of the ring wait
   * meanwhile.
   */
  const costOf = (feeder: string): number => {
    if (feeder === prefers) return 0;
    const lateMs = state.hidden.get(feeder)?.pulse?.lateMs ?? 0;
    return Math.max(FAST_MS, lateMs) * (1 + busy.filter((other) => other === feeder).length);
  };
  const feeders = state.ring
    .filter((one) => one.member !== member && !avoids.includes(one.member))
    .filter((one) => state.membersWithState.has(one.member) && state.hidden.has(one.member))
    .filter((one) => !isAway(state, one.member) && !isSuspended(state, one.member))
    .sort((a, b) => costOf(a.member) - costOf(b.member));
  const [feeder] = feeders;
  if (newcomer === undefined || feeder === undefined) return null;
  // Feeds and generations are numbered together. Each new number is the highest.
  const generation = latestGeneration(state) + 1;
  const feeds = new Map(state.feeds).set(member, { feeder: feeder.member, generation });
  const members: [typeof feeder, typeof feeder] = [feeder, newcomer];
  const isUnlinked = members.some((one) => state.unlinked.some((pair) => pair.includes(one.member)));
  const isInVain = state.hasServerLinks && isRelayInVain(state, [feeder.member, member]);
  const relayed = state.hasRelay && isUnlinked && !isInVain;
  const served = state.hasRelay ? isUnlinked && isInVain : beginsServed(state, feeder, newcomer);
  return {
    state: { ...state, feeds, highestReported: generation },
    effects: [
      {
        type: 'send',
        to: members.map((one) => one.member),
        message: { type: 'feed', generation, run: state.run, members, relayed, served },
      },
    ],
  };
}

/** Shows the members how much a newcomer has received. */
export function showReceived(state: RoomState, member: string, received: number): Step {
  if (!state.feeds.has(member)) return noEffects(state);
  return broadcastRoom({
    ...state,
    members: state.members.map((one) => (one.member === member ? { ...one, received } : one)),
  });
}

/** Returns the feeds without the feed of `member`, which no longer needs it. */
export function withoutFeed({ feeds }: RoomState, member: string): RoomState['feeds'] {
  if (!feeds.has(member)) return feeds;
  const rest = new Map(feeds);
  rest.delete(member);
  return rest;
}

/** Whether `generation` is a feed, and `member` and `peer` are its two ends. */
export function isOfFeed({ feeds }: RoomState, generation: number, member: string, peer: string): boolean {
  const isEnd = (newcomer: string, feeder: string): boolean => {
    const feed = feeds.get(newcomer);
    return feed?.generation === generation && feed.feeder === feeder;
  };
  return isEnd(member, peer) || isEnd(peer, member);
}
