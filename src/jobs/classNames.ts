/** Names of classes that people read as one name, although their letters differ. */
import { DataError } from '../util/errors.ts';
import { nameRanks } from '../util/text.ts';

/** Longest name whose letter case has a meaning: letters, and genotypes such as Aa. */
const CASED_LENGTH = 2;

/** Returns a key that is equal for names that differ only in letter case or spaces. */
function keyOf(name: string): string {
  const words = name.trim().replaceAll(/\s+/g, ' ');
  return words.length <= CASED_LENGTH ? words : words.toLowerCase();
}

/** Returns the name among `names` that differs from `name` only in letter case or spaces. */
export function twinOf(name: string, names: readonly string[]): string | null {
  return names.find((other) => other !== name && keyOf(other) === keyOf(name)) ?? null;
}

/**
 * Checks that no two classes differ only in letter case or spaces, because such classes are usually
 * one class.
 *
 * @param of the file or folder, for errors.
 * @param ranks the classes of each rank, if they are those of several ranks.
 * @throws DataError, which names two such classes and their ranks.
 */
export function checkTwins(of: string, classes: readonly string[], ranks: readonly (readonly string[])[] = []): void {
  const places = new Map<string, string>();
  for (const name of classes) {
    const twin = places.get(keyOf(name));
    places.set(keyOf(name), name);
    if (twin === undefined) continue;
    const quoted = [twin, name].map((one) => {
      const having = ranks.flatMap((own, rank) => (own.includes(one) ? [rank] : []));
      return `${JSON.stringify(one)}${having.length === 0 ? '' : ` (${nameRanks(having)})`}`;
    });
    throw new DataError(
      `${of}: the classes ${quoted.join(' and ')} differ only in letter case or spaces. Give them one name if they are one class, ` +
        'or clearly different names.',
    );
  }
}
