/** The list of lessons. */
import { uiMessages } from '../../locales/index.ts';

const LESSONS = ['lesson', 'pipeline'] as const;

export function LessonLinks({ current }: { current: (typeof LESSONS)[number] }) {
  const { lessons } = uiMessages.value.lesson;
  return (
    <nav class="lessons small" aria-label={lessons.title}>
      {LESSONS.map((name) => (
        <a key={name} href={`#${name}`} aria-current={name === current ? 'page' : undefined}>
          {lessons[name]}
        </a>
      ))}
    </nav>
  );
}
