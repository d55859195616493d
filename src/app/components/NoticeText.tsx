/** Shows a sentence of the engine: a notice in the page's language, another one in English. */
import { textOfNotice, type NoticeText as Text } from '../../protocol/notices.ts';
import { messages } from '../locales/index.ts';

/** @param lang the language of a sentence that is no notice. */
export function NoticeText({ message, notice, lang = 'en' }: Text & { lang?: string | undefined }) {
  return notice === undefined ? (
    <span lang={lang}>{message}</span>
  ) : (
    <>{textOfNotice(notice, messages.value.run.notices)}</>
  );
}
