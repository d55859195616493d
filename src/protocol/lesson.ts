/**
 * The lesson: a room whose ranks hold a few small numbers instead of a model, and add them up step
 * by step. This file defines the leader's orders and the state that all ranks hold and pages show.
 * Both cross links as objects, so they are schemas.
 */
import * as v from 'valibot';
import { count, MAX_WORLD_SIZE, memberId, rank, worldSize } from './scalars.ts';

export const LESSON_MODES = ['ring', 'parameter-server'] as const;
export type LessonMode = (typeof LESSON_MODES)[number];

/** Largest number: sums stay easy to follow, and exact in float32. */
export const MAX_NUMBER = 99;
/**
 * Least count of numbers per rank; with more ranks, one number per rank, because a chunk must not
 * be empty.
 */
const LEAST_NUMBERS = 4;
/**
 * Seconds by which a slowed link may delay a message: long enough to be visible, short enough to
 * wait for.
 */
const SLOW_SECONDS = { min: 2, max: 8 } as const;
/** Most pages of text. */
const MAX_PAGES = 32;

/** Count of numbers that each of `n` ranks has. */
export function numbersOf(n: number): number {
  return Math.max(LEAST_NUMBERS, n);
}

const perRank = <const Item extends v.GenericSchema>(item: Item) => v.pipe(v.array(item), v.maxLength(MAX_WORLD_SIZE));
const mode = v.picklist(LESSON_MODES);

const number = v.pipe(v.number(), v.integer(), v.minValue(-MAX_NUMBER), v.maxValue(MAX_NUMBER));

/** A rank's own numbers. */
export const OwnNumbers = v.pipe(v.array(number), v.minLength(LEAST_NUMBERS), v.maxLength(MAX_WORLD_SIZE));

/** Each message of `rank` is delayed by `seconds`, one after the other. */
const Slow = v.strictObject({
  rank,
  seconds: v.pipe(v.number(), v.minValue(SLOW_SECONDS.min), v.maxValue(SLOW_SECONDS.max)),
});

export const LessonOrder = v.variant('type', [
  /**
   * Changes one of a rank's numbers. Ranks other than the leader may only send this order, for
   * their own numbers.
   */
  v.strictObject({
    type: v.literal('edit'),
    rank,
    place: v.pipe(count, v.maxValue(MAX_WORLD_SIZE - 1)),
    value: number,
  }),
  /** Take up to `count` next steps of the round without pausing between them. */
  v.strictObject({ type: v.literal('steps'), count: v.pipe(count, v.minValue(1)) }),
  /** Begin a new round with all ranks and their present numbers. */
  v.strictObject({ type: v.literal('begin'), mode }),
  v.strictObject({ type: v.literal('slow'), slow: v.nullable(Slow) }),
  /** Show this page of text to the class. */
  v.strictObject({ type: v.literal('page'), page: v.pipe(count, v.maxValue(MAX_PAGES)) }),
  v.strictObject({ type: v.literal('finish') }),
]);
export type LessonOrder = v.InferOutput<typeof LessonOrder>;

/**
 * A step, by rank. Times are whole milliseconds since the round's first step, without waits for
 * people.
 */
const LessonStep = v.strictObject({
  /** When the data that the rank sends in this step was ready. */
  startedAt: perRank(count),
  /** When the rank had received its data; equal to `startedAt` if it receives nothing. */
  endedAt: perRank(count),
  /** Payload bytes, without headers. */
  sentBytes: perRank(count),
  receivedBytes: perRank(count),
});
export type LessonStep = v.InferOutput<typeof LessonStep>;

const Round = v.strictObject({
  /** Number of the round, from 1. */
  number: count,
  mode,
  /** Ranks 0 .. n-1 take part; ranks that joined later wait for the next round. */
  n: worldSize,
  /** The initial and the present numbers of each rank. */
  own: perRank(v.array(v.number())),
  held: perRank(v.array(v.number())),
  /** The completed steps. */
  steps: v.pipe(v.array(LessonStep), v.maxLength(2 * MAX_WORLD_SIZE)),
});
export type LessonRound = v.InferOutput<typeof Round>;

const Member = v.strictObject({ member: memberId, name: v.pipe(v.string(), v.maxLength(40)) });
const Named = v.strictObject({ rank, name: v.string() });

/** Bytes of the busiest rank in a whole round. */
const Measured = v.strictObject({ n: worldSize, bytes: count });

export const LessonState = v.strictObject({
  /** Number of changes; the higher version of two states is newer. */
  version: count,
  /** In ring order. */
  members: perRank(Member),
  /** The rank whose page sends the orders. */
  leader: rank,
  page: count,
  /** Numbers with which each rank starts the next round. */
  numbers: perRank(OwnNumbers),
  round: Round,
  slow: v.nullable(Slow),
  /** Measurements of the last complete round of each mode. */
  measured: v.strictObject({ ring: v.nullable(Measured), 'parameter-server': v.nullable(Measured) }),
  /**
   * Ranks that left (by their former rank) and joined since the last order of a round;
   * `isRestarted`: the round was restarted.
   */
  change: v.nullable(v.strictObject({ left: v.array(Named), joined: v.array(Named), isRestarted: v.boolean() })),
  isOver: v.boolean(),
});
export type LessonState = v.InferOutput<typeof LessonState>;
