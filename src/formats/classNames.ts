/** Names of classes that people read as one name, although their letters differ. */
import { DataError } from '../util/errors.ts';
import { nameRanks } from '../util/text.ts';

/**
 * In names of at most this length, letter case has a meaning, as in a and A, or in genotypes such
 * as Aa.
 */
const CASED_LENGTH = 2;

/** Characters without a width that have no meaning, such as byte order marks and soft hyphens. */
const INVISIBLE = /[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;
/**
 * Each entry matches signs that people use interchangeably, and has the sign that replaces them
 * when names are compared.
 */
const ALIKE: readonly (readonly [RegExp, string])[] = [
  [/\s+/g, ' '],
  [/(?<=[\p{L}\p{N}])[ _\p{Pd}]+(?=[\p{L}\p{N}])/gu, ' '],
  [/['‘’‚‛`´′]/g, "'"],
  [/["“”„‟«»″]/g, '"'],
];

/**
 * Returns a text in Unicode's composed form, without invisible characters and with ordinary spaces,
 * because programs write the same word in different ways.
 */
export function canonicalText(text: string): string {
  // eslint-disable-next-line no-control-regex
  if (/^[\x00-\x7f]*$/.test(text)) return text;
  return text
    .normalize('NFC')
    .replaceAll(INVISIBLE, '')
    .replaceAll(/\p{Zs}/gu, ' ');
}

/**
 * Returns a key that is equal for names that differ only in letter case, spaces or similar signs.
 */
function keyOf(name: string): string {
  const words = ALIKE.reduce(
    (text, [signs, one]) => text.replaceAll(signs, one),
    canonicalText(name).normalize('NFKC'),
  ).trim();
  return words.length <= CASED_LENGTH ? words : words.toLowerCase();
}

/** Returns two names that people read as one name, or `null`. */
export function firstConfusableNames(names: readonly string[]): [string, string] | null {
  const places = new Map<string, string>();
  for (const name of names) {
    const twin = places.get(keyOf(name));
    if (twin !== undefined) return [twin, name];
    places.set(keyOf(name), name);
  }
  return null;
}

/** Returns the name among `names` that people read like `name`. */
export function confusableNameOf(name: string, names: readonly string[]): string | null {
  return names.find((other) => other !== name && keyOf(other) === keyOf(name)) ?? null;
}

/**
 * Checks that no two classes differ only in letter case, spaces or similar signs, because such
 * classes are usually one class.
 *
 * @param source the file or folder, for errors.
 * @param ranks the classes of each rank, if `classes` come from several ranks.
 * @throws DataError, which names two such classes and their ranks.
 */
export function checkNoConfusableClasses(
  source: string,
  classes: readonly string[],
  ranks: readonly (readonly string[])[] = [],
): void {
  const twins = firstConfusableNames(classes);
  if (twins === null) return;
  const quoted = twins.map((one) => {
    const having = ranks.flatMap((own, rank) => (own.includes(one) ? [rank] : []));
    return `${JSON.stringify(one)}${having.length === 0 ? '' : ` (${nameRanks(having)})`}`;
  });
  throw new DataError(
    `${source}: the classes ${quoted.join(' and ')} differ only in letter case, spaces or similar signs. Give them one name if they are one class, ` +
      'or clearly different names.',
  );
}
