class DBTaskResultAdmin:
    pass
