"""The dashboard in the browser: what agents did, and the questions that wait for their user.

    server           requests to pages and JSON; who may call is settled in `access`, and by `socket_holders`
    pending          the questions of every workspace, and how an answer is carried out
    policy_findings  what lint finds, and how far an offered rule reaches
    records          decisions, figures and activity out of the audit logs
    pages            the pages; `markup` writes HTML and escapes all text, `charts` draws
    machine          the workspaces that this user has, each with its policy

The dashboard starts no program and writes nothing but approvals, and rules that it has shown.
"""
