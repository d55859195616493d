/**
 * News about a run for people, as data: each page writes them in its own language, and logs write
 * them in English.
 */
import * as v from 'valibot';

export const Notice = v.variant('code', [
  /** The run has ended without a tab, which had lost its place in the room. */
  v.strictObject({ code: v.literal('lost-place') }),
  /** The run has ended while a tab was not connected to the server. */
  v.strictObject({ code: v.literal('missed-end') }),
]);
export type Notice = v.InferOutput<typeof Notice>;

/** Sentences for each kind of notice. */
export type NoticeSentences = {
  [Code in Notice['code']]: (notice: Extract<Notice, { code: Code }>) => string;
};

export const NOTICE_SENTENCES: NoticeSentences = {
  'lost-place': () =>
    'The run ended without this tab, which had lost its place in the room: its connection to the server was broken. ' +
    'The tab still has the model of its last step. Save it, or take part in the next run.',
  'missed-end': () => 'The run had already ended when this tab was connected to the room again.',
};

/** Returns a notice as a text. */
export function textOf(notice: Notice, sentences: NoticeSentences = NOTICE_SENTENCES): string {
  const sentence: (of: never) => string = sentences[notice.code];
  return sentence(notice as never);
}
