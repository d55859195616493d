/**
 * What is learned of a text beside what it says: which characters there are. Of one text, or of
 * several that stay where they are.
 */
import { MAX_VOCABULARY } from '../../spec/gpt.ts';
import type { TextFacts } from '../../spec/dataFacts.ts';
import { DataError } from '../../util/errors.ts';
import type { Corpus } from './corpus.ts';

/** Characters that a message names. */
const MOST_NAMED = 8;

/** @param corpus of characters. */
export function factsOf({ tokenizer, test, bigramLoss }: Corpus): TextFacts {
  const { vocabulary } = tokenizer;
  const characters = vocabulary.tokens === 'characters' ? vocabulary.characters : '';
  return { kind: 'text', characters, bigram: { characters: test.tokens.length, loss: bigramLoss } };
}

/** @throws DataError where there are too many characters. */
export function checkTexts(name: string, { characters }: TextFacts): void {
  const { length } = Array.from(characters);
  if (length <= MAX_VOCABULARY) return;
  throw new DataError(
    `${name} have ${length} different characters, and a model takes ${MAX_VOCABULARY} at most: take rare ones out.`,
  );
}

/** The same in whatever order they are. */
export function joinTexts(texts: readonly TextFacts[]): TextFacts {
  const codes = new Set(texts.flatMap(({ characters }) => Array.from(characters, (one) => one.codePointAt(0)!)));
  const parts = texts.map(({ bigram }) => bigram).sort((a, b) => a.loss - b.loss || a.characters - b.characters);
  const characters = parts.reduce((sum, one) => sum + one.characters, 0);
  const loss = parts.reduce((sum, one) => sum + one.loss * one.characters, 0) / Math.max(1, characters);
  return {
    kind: 'text',
    characters: String.fromCodePoint(...[...codes].sort((a, b) => a - b)),
    bigram: { characters, loss },
  };
}

/** Why a text cannot be learned from with what was agreed on; `null`: it can. */
export function textMisfit(agreed: TextFacts, own: TextFacts): string | null {
  const known = new Set(agreed.characters);
  const unknown = Array.from(own.characters).filter((one) => !known.has(one));
  if (unknown.length === 0) return null;
  const some = unknown.slice(0, MOST_NAMED).map((one) => JSON.stringify(one));
  return `its text has characters that the run does not know (${some.join(', ')}${unknown.length > some.length ? ', ...' : ''})`;
}
