/** What is wrong, in the words of what found it: those are English. */
export function Problem({ of }: { of: string | null }) {
  if (of === null) return null;
  return (
    <p class="wrong small" role="alert">
      ✕ <span lang="en">{of}</span>
    </p>
  );
}
