/** Creates tokenizers from a text or from a vocabulary. */
import type { GptModel } from '../../spec/gpt.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { BytePairs } from './bytePairs.ts';
import { Characters } from './characters.ts';
import type { Tokenizer } from './tokenizer.ts';

/**
 * Creates a new tokenizer for a text. Byte pairs are learned from the part `train` of the text.
 *
 * @param characters the different characters of the text, in any order.
 * @throws (rejects) DataError if there are too many different characters.
 */
export async function createTokenizer(
  { tokens, vocabulary }: Pick<GptModel, 'tokens' | 'vocabulary'>,
  { characters, train }: { characters: string; train: AsyncIterable<string> },
): Promise<Tokenizer> {
  return tokens === 'characters' ? new Characters(characters) : BytePairs.of(train, vocabulary);
}

export function tokenizerOf(vocabulary: Vocabulary): Tokenizer {
  return vocabulary.tokens === 'characters' ? new Characters(vocabulary.characters) : new BytePairs(vocabulary.pairs);
}
