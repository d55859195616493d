/**
 * The lesson: a room whose ranks hold a few small numbers instead of a model, and add them up step
 * by step. What the one who leads may order, and what all ranks hold: the state that they keep in
 * step, and that pages show. Both cross links as objects, so they are schemas.
 */
import * as v from 'valibot';
import { count, MAX_WORLD_SIZE, memberId, rank, worldSize } from './scalars.ts';

export const LESSON_MODES = ['ring', 'parameter-server'] as const;
export type LessonMode = (typeof LESSON_MODES)[number];

/** Small enough to be added up in one's head; all sums are exact in float32. */
export const MAX_NUMBER = 99;
/**
 * Numbers of each rank, unless there are more ranks: then one for each, for a chunk must not be
 * empty.
 */
const LEAST_NUMBERS = 4;
/**
 * Seconds that a slowed line may take for a message: long enough to be seen, and short enough to be
 * waited for.
 */
const SLOW_SECONDS = { min: 2, max: 8 } as const;
/** Pages of text, at most. */
const MAX_PAGES = 32;

/** How many numbers each of `n` ranks brings. */
export function numbersOf(n: number): number {
  return Math.max(LEAST_NUMBERS, n);
}

const perRank = <const Item extends v.GenericSchema>(item: Item) => v.pipe(v.array(item), v.maxLength(MAX_WORLD_SIZE));
const mode = v.picklist(LESSON_MODES);

const number = v.pipe(v.number(), v.integer(), v.minValue(-MAX_NUMBER), v.maxValue(MAX_NUMBER));

/** A rank's own numbers. */
export const OwnNumbers = v.pipe(v.array(number), v.minLength(LEAST_NUMBERS), v.maxLength(MAX_WORLD_SIZE));

/** All that `rank` sends takes `seconds` longer, one message after the other. */
const Slow = v.strictObject({
  rank,
  seconds: v.pipe(v.number(), v.minValue(SLOW_SECONDS.min), v.maxValue(SLOW_SECONDS.max)),
});

export const LessonOrder = v.variant('type', [
  /**
   * One of a rank's numbers, the only order that a rank may give that does not lead: of its own.
   */
  v.strictObject({
    type: v.literal('edit'),
    rank,
    place: v.pipe(count, v.maxValue(MAX_WORLD_SIZE - 1)),
    value: number,
  }),
  /**
   * Take the next steps of the round, so many at most, without waiting for each other in between.
   */
  v.strictObject({ type: v.literal('steps'), count: v.pipe(count, v.minValue(1)) }),
  /** A new round, with all ranks and the numbers they have now. */
  v.strictObject({ type: v.literal('begin'), mode }),
  v.strictObject({ type: v.literal('slow'), slow: v.nullable(Slow) }),
  /** The page of text that the class is on. */
  v.strictObject({ type: v.literal('page'), page: v.pipe(count, v.maxValue(MAX_PAGES)) }),
  v.strictObject({ type: v.literal('finish') }),
]);
export type LessonOrder = v.InferOutput<typeof LessonOrder>;

/**
 * A step, by rank; times in whole milliseconds since the round's first step began, waits for people
 * left out.
 */
const LessonStep = v.strictObject({
  /** When it had what it sends in the step. */
  startedAt: perRank(count),
  /** When it had what it gets in it; as it gets nothing, at once. */
  endedAt: perRank(count),
  /** Bytes of numbers, without headers. */
  sentBytes: perRank(count),
  receivedBytes: perRank(count),
});
export type LessonStep = v.InferOutput<typeof LessonStep>;

const Round = v.strictObject({
  /** 1, 2, .. */
  number: count,
  mode,
  /** Ranks 0 .. n-1 are in it; further ones have come since it began, and wait for the next. */
  n: worldSize,
  /** What each rank brought, and what it holds now. */
  own: perRank(v.array(v.number())),
  held: perRank(v.array(v.number())),
  /** Those that are taken. */
  steps: v.pipe(v.array(LessonStep), v.maxLength(2 * MAX_WORLD_SIZE)),
});
export type LessonRound = v.InferOutput<typeof Round>;

const Member = v.strictObject({ member: memberId, name: v.pipe(v.string(), v.maxLength(40)) });
const Named = v.strictObject({ rank, name: v.string() });

/** The busiest rank's bytes in a whole round. */
const Measured = v.strictObject({ n: worldSize, bytes: count });

export const LessonState = v.strictObject({
  /** How often it has changed: of two states, which is the later. */
  version: count,
  /** In ring order. */
  members: perRank(Member),
  /** Whose page gives the orders. */
  leader: rank,
  page: count,
  /** What each rank will bring to the next round. */
  numbers: perRank(OwnNumbers),
  round: Round,
  slow: v.nullable(Slow),
  /** Of the last whole round in each mode. */
  measured: v.strictObject({ ring: v.nullable(Measured), 'parameter-server': v.nullable(Measured) }),
  /**
   * Who went (by the rank it had) and came, until the next order of a round; `isRestarted`: the
   * round began again for it.
   */
  change: v.nullable(v.strictObject({ left: v.array(Named), joined: v.array(Named), isRestarted: v.boolean() })),
  isOver: v.boolean(),
});
export type LessonState = v.InferOutput<typeof LessonState>;
