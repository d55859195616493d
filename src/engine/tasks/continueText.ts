/**
 * Continues a prompt with a language model. It pauses now and then, so that the tab can handle
 * messages.
 */
import { sampleTokens, type TokenForward, type Tokenizer } from '../../jobs/index.ts';
import { mixSeed } from '../../util/rng.ts';
import { systemClock, EventLoopYielder } from '../../util/clock.ts';

/** Number of tokens that are added to a prompt: a few lines of text. */
const LENGTH = 160;
/** Temperature of samples during training. Texts vary, but stay readable. */
const USUAL_TEMPERATURE = 0.8;
/**
 * Milliseconds of computation without a pause. During this time the tab cannot handle messages from
 * its links.
 */
export const UNINTERRUPTED_COMPUTE_MS = 20;
/** Makes samples independent of the job's other random numbers. */
const SAMPLE_WORD = 0x5a3;

/** A prompt and a temperature; see `sampleTokens`. */
export interface TextContinuationRequest {
  prompt: string;
  temperature: number;
}

/** Returns the request for the samples of a run. */
export function sampleTextRequest(prompt: string): TextContinuationRequest {
  return { prompt, temperature: USUAL_TEMPERATURE };
}

/** Returns the text that continues a prompt. The same weights produce the same text. */
export async function continueText(
  forward: TokenForward,
  { tokenizer, context, seed }: { tokenizer: Tokenizer; context: number; seed: number },
  { prompt, temperature }: TextContinuationRequest,
): Promise<string> {
  const known = tokenizer.encode(prompt);
  // A prompt without any known token is replaced by token 0.
  const start = known.length > 0 ? known : Uint16Array.of(0);
  const tokens = sampleTokens(forward, { context }, start, { temperature, seed: mixSeed(seed, SAMPLE_WORD) });
  const written: number[] = [];
  const yielder = new EventLoopYielder(systemClock, UNINTERRUPTED_COMPUTE_MS);
  while (written.length < LENGTH) {
    written.push((await tokens.next()).value);
    await yielder.yieldIfDue();
  }
  return tokenizer.decode(written);
}
