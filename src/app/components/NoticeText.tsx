/**
 * Shows a sentence of the engine. Notices are in the page's language, other sentences are in
 * English.
 */
import { textOfNotice, type NoticeMessage } from '../../protocol/notices.ts';
import { uiMessages } from '../locales/index.ts';

/** @param lang the language of a sentence that is not a notice. */
export function NoticeText({ message, notice, lang = 'en' }: NoticeMessage & { lang?: string }) {
  return notice === undefined ? (
    <span lang={lang}>{message}</span>
  ) : (
    <>{textOfNotice(notice, uiMessages.value.run.notices)}</>
  );
}
