/**
 * The built-in text: short generated fables of animals that meet, ask and answer. Their grammar is
 * rich enough to show whether a model writes only words or also sentences. Only exact arithmetic is
 * used, so the text is the same on every machine.
 */
import { createRng, type Rng } from '../../util/rng.ts';

/** Minimum number of characters. Fables are added until this length is reached. */
export const FABLES_LENGTH = 150_000;
/**
 * A fixed seed is used instead of the job's seed, so that the text is the same in every run, like a
 * file.
 */
const SEED = 0xfab1e;

const ANIMALS = ['fox', 'crow', 'hare', 'wolf', 'mouse', 'goat', 'owl', 'frog', 'bear', 'hen', 'donkey', 'heron'];
const KINDS = ['old', 'young', 'proud', 'hungry', 'clever', 'tired', 'lazy', 'kind', 'vain', 'patient'];
const PLACES = ['the river', 'the mill', 'the wood', 'the well', 'the hill', 'the garden', 'the market', 'the bridge'];
const THINGS = ['bread', 'cheese', 'honey', 'corn', 'water', 'wool', 'apples', 'firewood'];
const TIMES = ['One morning', 'One evening', 'In the spring', 'In a hard winter', 'Long ago', 'On a market day'];
const WEATHERS = [
  'It was raining',
  'The sun was low',
  'The wind was cold',
  'Snow lay on the ground',
  'It was very hot',
];
const FAULTS = ['laughed', 'ran away', 'said nothing', 'turned red', 'hid behind a stone', 'began to weep'];

/** Requests and questions of one animal to another. */
const ASKING: readonly ((thing: string) => string)[] = [
  (thing) => `Give me some of your ${thing}, for I have none`,
  (thing) => `Where did you find so much ${thing}`,
  (thing) => `Let us share the ${thing} and be friends`,
  (thing) => `Who has taken my ${thing} from me`,
  (thing) => `Will you carry my ${thing} over the hill`,
];
const ANSWERS: readonly ((thing: string, place: string) => string)[] = [
  (thing, place) => `There is ${thing} for all of us at ${place}`,
  (thing) => `I worked all summer for this ${thing}, and you slept`,
  (_, place) => `Follow me to ${place}, and you shall see`,
  (thing) => `Take what you need, and leave the ${thing} that you do not`,
  (_, place) => `Ask the one who lives by ${place}`,
  () => 'A friend is worth more than a full house',
];
const MORALS = [
  'Who shares has twice as much.',
  'Many small steps make a long road.',
  'What one cannot lift, four can carry.',
  'Do not count on a loud voice.',
  'It is better to ask than to guess.',
  'Who waits for the slowest arrives with all.',
  'The one who listens learns the most.',
  'A promise is lighter than bread, and feeds nobody.',
];

/** Generates the whole text. */
export function writeFables(): string {
  const rng = createRng(SEED);
  const fables: string[] = [];
  for (let length = 0; length < FABLES_LENGTH; length += fables.at(-1)!.length) fables.push(`${fable(rng)}\n\n`);
  return fables.join('');
}

function fable(rng: Rng): string {
  const pick = <T>(list: readonly T[]): T => list[rng.below(list.length)]!;
  const one = pick(ANIMALS);
  const other = pick(ANIMALS.filter((animal) => animal !== one));
  const kind = pick(KINDS);
  const place = pick(PLACES);
  const thing = pick(THINGS);
  const lines = [
    `${pick(TIMES)} ${article(kind)} ${kind} ${one} went to ${place}. ${pick(WEATHERS)}.`,
    `There the ${one} met ${article(other)} ${other}, who had ${pick(['no', 'much', 'a little'])} ${thing}.`,
  ];
  for (let turns = 1 + rng.below(3); turns > 0; turns--) {
    const ask = pick(ASKING)(thing);
    lines.push(`"${ask}${ask.startsWith('Wh') || ask.startsWith('Will') ? '?' : ','}" said the ${one}.`);
    lines.push(`"${pick(ANSWERS)(thing, pick(PLACES))}," said the ${other}.`);
  }
  const ending =
    rng.below(2) === 0
      ? `So the ${one} and the ${other} went home together, and there was ${thing} for both.`
      : `Then the ${one} ${pick(FAULTS)}, and the ${other} went home alone.`;
  return [...lines, ending, pick(MORALS)].join('\n');
}

function article(word: string): string {
  return /^[aeio]/.test(word) ? 'an' : 'a';
}
